"""What `docker-compose.yml` and `Dockerfile` name is there, and pinned (no container is started here)."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler_service.cli.main import run

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def services() -> dict[str, Any]:
    """The services by their names."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    return found


def test_every_image_is_pinned(services: dict[str, Any]) -> None:
    """A version, never `latest`; what is built here is built from a pinned image."""
    images = [one["image"] for one in services.values() if "image" in one]
    images += re.findall(r"(?m)^FROM (\S+)$", (ROOT / "Dockerfile").read_text())
    assert len(images) >= 6
    assert [image for image in images if not re.search(r":\d+(\.\d+)+|:\d{2,}$", image)] == []


def test_the_parts_are_those_of_a_cluster(services: dict[str, Any]) -> None:
    """A store that keeps, placement, a scheduler service that keeps, history, two nodes, a target."""
    assert {"redis", "placement", "scheduler", "postgres", "one", "two", "example"} <= services.keys()
    assert services["redis"]["command"][-2:] == ["--appendonly", "yes"]
    assert services["scheduler"]["volumes"]
    for name in ("one", "two", "example"):
        assert services[f"{name}-dapr"]["network_mode"] == f"service:{name}"


def test_what_is_mounted_and_copied_is_there(services: dict[str, Any]) -> None:
    """Files of this checkout, none of which the image's build leaves out."""
    mounted = [volume.split(":")[0] for one in services.values() for volume in one.get("volumes", [])]
    copied = re.findall(r"(?m)^COPY (.+) \S+$", (ROOT / "Dockerfile").read_text())
    names = [name for name in mounted if name.startswith("./")] + " ".join(copied).split()
    assert len(names) >= 8
    assert [name for name in names if not (ROOT / name).exists()] == []
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line.startswith("!")}
    assert set(" ".join(copied).split()) == let_in


@pytest.mark.parametrize("name", ["one", "two"])
def test_the_nodes_are_started_by_a_command_there_is(
    services: dict[str, Any], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every option is one of `punctual serve`."""
    program, command, *options = services[name]["command"]
    assert (program, command) == ("punctual", "serve")
    assert run(["serve", "--help"]) == 0
    offered = capsys.readouterr().out
    assert [one for one in options if one.startswith("--") and one not in offered] == []
