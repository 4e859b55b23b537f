"""The manifest and the chart are what Kubernetes, Dapr and this product take; no cluster is started here."""

import json
import re
import shutil
import subprocess
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from scheduler_service.api.health import ROUTES
from scheduler_service.app.lifetime import LAST_ANSWERS_SECONDS
from scheduler_service.cli.main import run
from scheduler_service.settings import Settings, load_settings
from scripts.local_cluster import APP_ID, LocalCluster
from tests.unit.docs.pages import ROOT, fences, read

CHART = ROOT / "deploy" / "helm" / "punctual"
MANIFEST = ROOT / "deploy" / "kubernetes" / "punctual.yaml"
VERSIONS = ("1.29", "1.34")
KEY = "0123456789abcdef"
SECRETS = {
    "server-key": KEY,
    "database-url": "postgresql://punctual:secret@db.example/punctual",
    "token": "fedcba9876543210",
    "redis-password": "",
}


def parts(text: str) -> dict[str, Any]:
    """kind → object; each kind is there once."""
    found = [one for one in yaml.safe_load_all(text) if one]
    assert len({one["kind"] for one in found}) == len(found)
    return {one["kind"]: one for one in found}


def sidecar_options(command: list[str]) -> dict[str, str]:
    """option → its value, "true" for a switch."""
    found = {}
    for word, following in pairwise([*command, "--"]):
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            found[name] = value or ("true" if following.startswith("--") else following)
    return found


def environ_of(node: dict[str, Any]) -> dict[str, str]:
    """What the process sees: references by the secret of the page, fields of the pod by their paths."""
    found: dict[str, str] = {}
    for one in node["env"]:
        origin = one.get("valueFrom", {})
        if "secretKeyRef" in origin:
            found[one["name"]] = SECRETS[origin["secretKeyRef"]["key"]]
        elif "fieldRef" in origin:
            found[one["name"]] = origin["fieldRef"]["fieldPath"].replace(".", "-")
        else:
            found[one["name"]] = re.sub(r"\$\((\w+)\)", lambda name: found[name[1]], one["value"])
    return found


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    return parts(MANIFEST.read_text())


@pytest.fixture
def pod(manifest: dict[str, Any]) -> dict[str, Any]:
    """What each node's pod is made of."""
    template: dict[str, Any] = manifest["Deployment"]["spec"]["template"]
    return template


@pytest.fixture
def node(pod: dict[str, Any]) -> dict[str, Any]:
    """The one container; Dapr adds its own."""
    (container,) = pod["spec"]["containers"]
    only: dict[str, Any] = container
    return only


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_knows_every_member(manifest: dict[str, Any], version: str) -> None:
    """By its own schemas, strictly; the rest are kinds of Dapr."""
    own = {kind: one for kind, one in manifest.items() if one["apiVersion"] != "dapr.io/v1alpha1"}
    assert set(own) == {"Deployment", "PodDisruptionBudget", "Service", "ServiceAccount"}
    for one in own.values():
        kubernetes_validate.validate(one, version, strict=True)
    assert set(manifest) - set(own) == {"Component", "Configuration", "Resiliency"}


def test_a_member_that_kubernetes_does_not_know_is_found(manifest: dict[str, Any]) -> None:
    """So the test above can fail."""
    wrong = json.loads(json.dumps(manifest["Deployment"]))
    wrong["spec"]["template"]["spec"]["terminationGraceSeconds"] = 1
    with pytest.raises(kubernetes_validate.ValidationError, match="terminationGraceSeconds"):
        kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)


def test_the_environment_is_that_of_a_node(node: dict[str, Any]) -> None:
    """Every variable is a setting; secrets are references."""
    settings = load_settings({}, environ_of(node)).settings
    assert settings.node.id == "metadata-name"
    assert settings.server.external_url == settings.feedback.internal_url
    assert settings.server.external_url == "http://punctual.metadata-namespace.svc:8000"
    assert (settings.server.key, settings.dapr.app_token) == (KEY, SECRETS["token"])
    assert settings.database.url == SECRETS["database-url"]
    assert settings.server.drain_seconds == Settings().server.drain_seconds
    assert settings.egress is not None
    assert settings.egress.allow == ()
    secret = {one["name"] for one in node["env"] if "secretKeyRef" in one.get("valueFrom", {})}
    assert secret == {"PUNCTUAL_SERVER__KEY", "PUNCTUAL_DATABASE__URL", "PUNCTUAL_DAPR__APP_TOKEN"}


def test_variables_of_a_service_are_not_taken_for_settings(pod: dict[str, Any]) -> None:
    """Kubernetes makes PUNCTUAL_PORT and more of a Service named punctual; the start passes over them."""
    assert pod["spec"]["enableServiceLinks"] is False


def test_the_secret_of_the_page_has_all_that_is_referred_to(manifest: dict[str, Any]) -> None:
    """One Secret, made by the command of the page, with the name that Dapr asks for."""
    text = json.dumps(manifest)
    keys = set(re.findall(r'"secretKeyRef": \{"name": "punctual", "key": "([\w-]+)"\}', text))
    assert text.count("secretKeyRef") == 4
    assert keys == set(SECRETS)
    section = read("docs/operations.md").partition("### On Kubernetes")[2]
    command = fences(section, "text")[0]
    assert set(re.findall(r"--from-literal=([\w-]+)=", command)) == keys
    assert manifest["Deployment"]["spec"]["template"]["metadata"]["annotations"][
        "dapr.io/app-token-secret"
    ] == "punctual"  # fmt: skip


def test_the_command_is_there(node: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """Every option is one of `punctual serve`; the port is that of Service and probes."""
    program, command, *options = node["args"]
    assert (program, command) == ("punctual", "serve")
    assert run(["serve", "--help"]) == 0
    offered = capsys.readouterr().out
    assert [one for one in options if one.startswith("--") and one not in offered] == []
    given = sidecar_options(options)
    assert int(given["port"]) == node["ports"][0]["containerPort"] == Settings().server.port
    assert given["data"].startswith("/data/")


def test_the_probes_ask_routes_that_are_there(node: dict[str, Any], manifest: dict[str, Any]) -> None:
    """Alive restarts, ready takes work; a start has minutes."""
    paths = {
        name: node[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert paths == {
        "startupProbe": "/health/live",
        "livenessProbe": "/health/live",
        "readinessProbe": "/health/ready",
    }
    offered = {operation.route for operation in ROUTES.operations}
    assert {f"GET {path}" for path in paths.values()} <= offered
    ports = manifest["Service"]["spec"]["ports"]
    assert [port["targetPort"] for port in ports] == [node["ports"][0]["name"]]
    assert node["startupProbe"]["periodSeconds"] * node["startupProbe"]["failureThreshold"] >= 300


def test_a_node_has_the_time_to_end(pod: dict[str, Any], node: dict[str, Any]) -> None:
    """Others learn of it, it drains, ten seconds are for the history; daprd stays so long, then ends."""
    leaving = int(node["lifecycle"]["preStop"]["exec"]["command"][1])
    drain = int(environ_of(node)["PUNCTUAL_SERVER__DRAIN_SECONDS"])
    marks = pod["metadata"]["annotations"]
    stays = int(marks["dapr.io/block-shutdown-duration"].removesuffix("s"))
    assert leaving + drain + 10 <= stays
    assert drain + LAST_ANSWERS_SECONDS < stays
    assert (
        stays + int(marks["dapr.io/graceful-shutdown-seconds"]) < pod["spec"]["terminationGracePeriodSeconds"]
    )


def test_dapr_gets_the_files_of_the_checkout(manifest: dict[str, Any]) -> None:
    """The same policies and component; here with a password, and only for this application."""
    policies = yaml.safe_load((ROOT / "resiliency.yaml").read_text())
    assert manifest["Resiliency"]["spec"] == policies["spec"]
    component = yaml.safe_load((ROOT / "components" / "statestore.yaml").read_text())["spec"]
    own = manifest["Component"]["spec"]
    assert (own["type"], own["version"]) == (component["type"], component["version"])
    names = [one["name"] for one in own["metadata"]]
    assert {one["name"] for one in component["metadata"]} == set(names) - {"enableTLS"}
    assert manifest["Component"]["scopes"] == manifest["Resiliency"]["scopes"] == [APP_ID]
    configuration = manifest["Configuration"]
    assert configuration["metadata"]["name"] == "punctual"
    assert configuration["spec"]["accessControl"] == {"defaultAction": "deny"}


def test_nothing_may_be_more_than_a_user(pod: dict[str, Any], node: dict[str, Any]) -> None:
    """The user of the image by number, as Kubernetes wants it; two folders are all that can be written."""
    user = re.search(r"useradd --uid (\d+) --create-home punctual", read("Dockerfile"))
    assert user is not None
    assert pod["spec"]["securityContext"]["runAsUser"] == int(user[1])
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert node["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert [mount["mountPath"] for mount in node["volumeMounts"]] == ["/data", "/tmp"]


def test_one_node_at_a_time_goes(manifest: dict[str, Any]) -> None:
    """Both on purpose and by a new version; two are the least that take over from each other."""
    deployment = manifest["Deployment"]["spec"]
    assert deployment["replicas"] == 2
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert manifest["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    assert "cpu" not in deployment["template"]["spec"]["containers"][0]["resources"]["limits"]
    labels = deployment["template"]["metadata"]["labels"].items()
    for selector in (
        deployment["selector"]["matchLabels"],
        manifest["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        manifest["Service"]["spec"]["selector"],
    ):
        assert selector.items() <= labels


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


@pytest.fixture
def sidecar(tmp_path: Path) -> dict[str, str]:
    """The options of `./scripts/cluster` for a daprd."""
    programs = {name: name for name in ("redis-server", "placement", "scheduler", "daprd")}
    cluster = LocalCluster(folder=tmp_path, programs=programs)
    cluster.add_node("one")
    return sidecar_options(cluster.sidecars["one"].command)


def test_the_annotations_say_what_the_options_say(pod: dict[str, Any], sidecar: dict[str, str]) -> None:
    """Each option of `./scripts/cluster` that Kubernetes does not give by itself has its annotation."""
    marks = {name.removeprefix("dapr.io/"): value for name, value in pod["metadata"]["annotations"].items()}
    common = {name: value for name, value in sidecar.items() if name in marks}
    assert {"app-id", "app-max-concurrency", "app-health-threshold", "max-body-size"} < set(common)
    assert len(common) == 12
    assert {name: marks[name] for name in common if name not in ("app-port", "config")} == {
        name: value for name, value in common.items() if name not in ("app-port", "config")
    }
    assert marks["app-id"] == APP_ID
    assert int(marks["app-port"]) == Settings().dapr.app_port


def test_the_page_has_the_whole_command_line(sidecar: dict[str, str]) -> None:
    """Every option of `./scripts/cluster` with its value, addresses and folders aside, and its reason."""
    section = read("docs/operations.md").partition("### The command line of daprd")[2].partition("\n### ")[0]
    words = fences(section, "text")[0].replace("\\\n", " ").split()
    assert words[:2] == ["DAPR_HOST_IP=127.0.0.1", "daprd"]
    shown = sidecar_options(words[2:])
    assert set(shown) == set(sidecar)
    own = {name for name in sidecar if name.endswith(("port", "path", "address", "config"))} - {
        "app-health-check-path"
    }
    assert {name: shown[name] for name in shown if name not in own} == {
        name: sidecar[name] for name in sidecar if name not in own
    }
    settings = Settings().dapr
    ports = {"app-port": settings.app_port, "dapr-http-port": settings.http_port}
    ports["dapr-grpc-port"] = settings.grpc_port
    assert {name: int(shown[name]) for name in ports} == ports
    assert [name for name in shown if f"`--{name}`" not in section] == []
