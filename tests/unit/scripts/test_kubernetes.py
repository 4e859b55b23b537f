"""The manifest is what Kubernetes, Dapr and this product take; no cluster is started here."""

import json
import re
from typing import Any

import kubernetes_validate
import pytest
import yaml

from scheduler_service.api.health import ROUTES
from scheduler_service.app.lifetime import LAST_ANSWERS_SECONDS
from scheduler_service.cli.main import run
from scheduler_service.settings import Settings, load_settings
from scripts.local_cluster import APP_ID
from tests.unit.docs.pages import ROOT, fences, read
from tests.unit.scripts.deployment import KEY, SECRETS, VERSIONS, environ_of, sidecar_options


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
