"""The Helm chart: rendered with its defaults it is the manifest; wrong values are refused."""

import json
import shutil
import subprocess
import tomllib
from typing import Any

import kubernetes_validate
import pytest
import yaml

from scheduler_service.settings import load_settings
from tests.unit.docs.pages import read
from tests.unit.scripts.deployment import CHART, VERSIONS, environ_of, parts


def helm() -> str:
    program = shutil.which("helm")
    if program is None:
        pytest.skip("helm is missing (helm.sh); the manifest is compared with the chart where it is there")
    return program


def rendered(*options: str) -> "subprocess.CompletedProcess[str]":
    command = [helm(), "template", "punctual", str(CHART), "--kube-version", "1.31", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.elsewhere
def test_the_manifest_is_the_chart_with_its_defaults(manifest: dict[str, Any]) -> None:
    """Whoever changes one renders the other."""
    assert parts(rendered().stdout) == manifest


@pytest.mark.elsewhere
def test_everything_that_can_be_switched_on_is_taken() -> None:
    """With Kubernetes' schemas for what is Kubernetes' own; a longer drain is waited for."""
    switched = ["--set", "networkPolicy.enabled=true,serviceMonitor.enabled=true,drainSeconds=60"]
    switched += ["--set", "dapr.apiTokenSecret=api-token"]
    switched += ["--set-json", 'networkPolicy.from=[{"podSelector": {"matchLabels": {"role": "caller"}}}]']
    switched += [
        "--set-json",
        'egressAllow=["10.0.0.0/8"]',
        "--set-string",
        "environment.PUNCTUAL_LOG__ACCESS=true",
    ]
    found = parts(rendered(*switched).stdout)
    for kind in ("Deployment", "NetworkPolicy"):
        kubernetes_validate.validate(found[kind], VERSIONS[0], strict=True)
    (endpoint,) = found["ServiceMonitor"]["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["path"]) == ("http", "/metrics")
    pod = found["Deployment"]["spec"]["template"]
    assert pod["spec"]["terminationGracePeriodSeconds"] == 85
    annotations = pod["metadata"]["annotations"]
    assert annotations["dapr.io/api-token-secret"] == "api-token"
    environ = environ_of(pod["spec"]["containers"][0])
    settings = load_settings({}, environ).settings
    assert settings.server.drain_seconds == 60
    assert settings.egress is not None
    assert [str(one) for one in settings.egress.allow] == ["10.0.0.0/8"]


@pytest.mark.elsewhere
@pytest.mark.parametrize("wrong", ["replicas=0", "replica=2", "redis.host=redis", "environment.PORT=1"])
def test_a_wrong_value_is_refused_by_its_name(wrong: str) -> None:
    """Before anything reaches a cluster."""
    refused = rendered("--set-string" if "environment" in wrong else "--set", wrong)
    assert refused.returncode != 0
    assert wrong.partition("=")[0].rpartition(".")[2] in refused.stderr


def test_the_chart_is_of_this_version(node: dict[str, Any]) -> None:
    """And so is the image, named as the distribution."""
    project = tomllib.loads(read("pyproject.toml"))["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == project["version"]
    assert node["image"] == f"{project['name']}:{project['version']}"


def test_each_value_is_described_and_checked() -> None:
    """The schema knows the same names as values.yaml, and the page explains them."""
    text = (CHART / "values.yaml").read_text()
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert set(yaml.safe_load(text)) == set(schema["properties"]) - {"global"}
    section = read("docs/operations.md").partition("### On Kubernetes")[2].partition("\n### ")[0]
    assert [name for name in yaml.safe_load(text) if f"`{name}" not in section] == []
