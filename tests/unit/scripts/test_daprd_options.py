"""A daprd is told the same by `./scripts/cluster`, on Kubernetes, and on the page."""

from pathlib import Path
from typing import Any

import pytest

from scheduler_service.settings import Settings
from scripts.local_cluster import APP_ID, LocalCluster
from tests.unit.docs.pages import fences, read
from tests.unit.scripts.deployment import sidecar_options


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
