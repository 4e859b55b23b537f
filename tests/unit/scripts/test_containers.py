"""What `docker-compose.yml` and `Dockerfile` name is there, and pinned (no container is started here)."""

import json
import os
import re
import shutil
import subprocess
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler_service.cli.main import run
from scheduler_service.settings import Settings, load_settings
from scripts.local_cluster import APP_ID, LocalCluster
from tests.unit.docs.pages import read

ROOT = Path(__file__).resolve().parents[3]
NODES = ("one", "two")
KEY = "0123456789abcdef"


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
    parts = {f"{name}-{part}" for name in NODES for part in ("punctual", "dapr")}
    assert {"redis", "placement", "scheduler", "postgres", "example-app", "example-dapr"} | parts <= set(
        services
    )
    assert services["redis"]["command"][1:3] == ["--appendonly", "yes"]
    assert services["scheduler"]["volumes"]
    assert services["postgres"]["volumes"]


def test_a_sidecar_outlives_the_end_of_its_application(services: dict[str, Any]) -> None:
    """Both are in a network that neither holds: else it would be gone for one when the other starts anew."""
    for name, application in (("one", "one-punctual"), ("two", "two-punctual"), ("example", "example-app")):
        for part in (application, f"{name}-dapr"):
            assert services[part]["network_mode"] == f"service:{name}"
            assert "ports" not in services[part]
        assert "build" not in services[name]
        assert services[name]["command"] == ["sleep", "infinity"]


@pytest.mark.parametrize("name", NODES)
def test_a_node_ends_before_what_it_needs_to_end_well(services: dict[str, Any], name: str) -> None:
    """What depends on another one is stopped first; the drain is shorter than the patience for it."""
    node = services[f"{name}-punctual"]
    assert node["depends_on"][f"{name}-dapr"] == {"condition": "service_started"}
    assert {"redis", "placement", "scheduler"} <= set(services[f"{name}-dapr"]["depends_on"])
    assert int(node["stop_grace_period"].rstrip("s")) > Settings().server.drain_seconds


@pytest.mark.parametrize("name", NODES)
def test_a_node_waits_for_its_database(services: dict[str, Any], name: str) -> None:
    """It does not start without its history (exit code 3)."""
    assert services[f"{name}-punctual"]["depends_on"]["postgres"] == {"condition": "service_healthy"}
    assert services["postgres"]["healthcheck"]["test"][:2] == ["CMD", "pg_isready"]


@pytest.mark.parametrize("name", NODES)
def test_feedback_reaches_a_node_whichever_lives(services: dict[str, Any], name: str) -> None:
    """Not the loopback of who reports: a name of both nodes in their network, a published port outside."""
    environ = services[f"{name}-punctual"]["environment"]
    environ = {key: re.sub(r"\$\{\w+:-(.*)\}", r"\1", value) for key, value in environ.items()}
    settings = load_settings({}, environ | {"PUNCTUAL_SERVER__KEY": KEY}).settings
    assert settings.feedback.internal_url == "http://punctual:8000"
    assert settings.feedback.external_url == "http://127.0.0.1:8000"
    assert services["one"]["ports"] == ["127.0.0.1:8000:8000"]
    assert f"{settings.server.external_url}:8000".removeprefix("http://") in services[name]["ports"]
    assert services[name]["networks"]["default"]["aliases"] == ["punctual"]
    assert settings.node.id == name


@pytest.mark.parametrize("name", NODES)
def test_jobs_do_not_reach_the_sidecar(services: dict[str, Any], name: str) -> None:
    """It is on loopback, which is allowed where nothing is said."""
    given = services[f"{name}-punctual"]["environment"]["PUNCTUAL_EGRESS__ALLOW"]
    assert given == "${PUNCTUAL_EGRESS__ALLOW:-[]}"
    egress = load_settings({}, {"PUNCTUAL_EGRESS__ALLOW": "[]"}).settings.egress
    assert egress is not None
    assert egress.allow == ()


def test_a_sidecar_is_told_what_it_is_told_without_containers(
    services: dict[str, Any], tmp_path: Path
) -> None:
    """The options of `./scripts/cluster`, but for addresses, folders and logs."""
    programs = {name: name for name in ("redis-server", "placement", "scheduler", "daprd")}
    cluster = LocalCluster(folder=tmp_path, programs=programs)
    cluster.add_node("one")
    command = cluster.sidecars["one"].command
    given = {option[2:]: value for option, value in pairwise(command)}
    told = dict(option[2:].split("=") for option in services["one-dapr"]["command"][1:] if "=" in option)
    assert told["app-id"] == given["app-id"] == APP_ID
    assert int(told["app-port"]) == Settings().dapr.app_port
    common = [name for name in given if name.startswith(("app-health", "app-max", "max-"))]
    assert len(common) == 6
    assert {name: told[name] for name in common} == {name: given[name] for name in common}
    assert "--enable-app-health-check" in services["one-dapr"]["command"]
    assert services["two-dapr"]["command"] == services["one-dapr"]["command"]


@pytest.mark.elsewhere
def test_compose_reads_the_file() -> None:
    """Where a client is there; without a key it says what to set."""
    client = shutil.which("docker-compose")
    if client is None:
        pytest.skip("docker-compose is missing (Debian: apt-get install docker-compose)")
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PUNCTUAL_")}

    def check(environ: dict[str, str]) -> "subprocess.CompletedProcess[str]":
        command = [client, "--file", str(ROOT / "docker-compose.yml"), "config", "--quiet"]
        return subprocess.run(
            command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60, check=False
        )

    needed = {
        "POSTGRES_PASSWORD": "a password of letters and digits",
        "REDIS_PASSWORD": "a password of letters and digits",
        "PUNCTUAL_SERVER__KEY": "an admin key of 16 characters or more",
    }
    given = environ | dict.fromkeys(needed, KEY)
    for missing, remedy in needed.items():
        refused = check({name: value for name, value in given.items() if name != missing})
        assert refused.returncode != 0, missing
        assert remedy in refused.stderr
    taken = check(given)
    assert (taken.returncode, taken.stderr) == (0, "")


def test_what_is_mounted_and_copied_is_there(services: dict[str, Any]) -> None:
    """Files of this checkout, none of which the image's build leaves out."""
    mounted = [volume.split(":")[0] for one in services.values() for volume in one.get("volumes", [])]
    copied = re.findall(r"(?m)^COPY (.+) \S+$", (ROOT / "Dockerfile").read_text())
    names = [name for name in mounted if name.startswith("./")] + " ".join(copied).split()
    assert len(names) >= 8
    assert [name for name in names if not (ROOT / name).exists()] == []
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line.startswith("!")}
    assert set(" ".join(copied).split()) == let_in


@pytest.mark.parametrize("name", NODES)
def test_the_nodes_are_started_by_a_command_there_is(
    services: dict[str, Any], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every option is one of `punctual serve`."""
    program, command, *options = services[f"{name}-punctual"]["command"]
    assert (program, command) == ("punctual", "serve")
    assert run(["serve", "--help"]) == 0
    offered = capsys.readouterr().out
    assert [one for one in options if one.startswith("--") and one not in offered] == []


VARIABLE = re.compile(r"\$\{(\w+)(:[?-])?")


def test_secrets_come_from_the_environment_alone() -> None:
    """No key or password has a default or stands in the file; every variable is explained on the page."""
    text = (ROOT / "docker-compose.yml").read_text()
    found = dict(VARIABLE.findall(text))
    assert {name for name, how in found.items() if how == ":?"} == {
        "PUNCTUAL_SERVER__KEY",
        "POSTGRES_PASSWORD",
        "REDIS_PASSWORD",
    }
    section = read("docs/operations.md").partition("### With containers")[2].partition("\n### ")[0]
    assert [name for name in found if f"| {name} |" not in section] == []
    secret = [line for line in text.splitlines() if re.search(r"(?i)password|_key|://\w+:\S*@", line)]
    assert [line for line in secret if not line.lstrip().startswith("#") and "${" not in line] == []


def test_redis_asks_for_the_password_that_daprd_reads(services: dict[str, Any]) -> None:
    """From the environment of each node's daprd, by a secret store beside the state store."""
    folder = ROOT / "components" / "compose"
    found = {path.stem: yaml.safe_load(path.read_text()) for path in folder.iterdir()}
    assert set(found) == {"environment", "statestore"}
    store, secrets = found["statestore"], found["environment"]
    assert secrets["spec"]["type"] == "secretstores.local.env"
    assert store["auth"]["secretStore"] == secrets["metadata"]["name"]
    (reference,) = (one["secretKeyRef"] for one in store["spec"]["metadata"] if "secretKeyRef" in one)
    assert set(reference.values()) == {"REDIS_PASSWORD"}
    option, password = services["redis"]["command"][-2:]
    assert option == "--requirepass"
    for name in NODES:
        assert services[f"{name}-dapr"]["environment"] == {"REDIS_PASSWORD": password}


def test_what_is_built_here_is_one_image(services: dict[str, Any]) -> None:
    """Named as the distribution, at its version; whoever is no scheduler does not answer for its health."""
    built = {name: one for name, one in services.items() if "build" in one}
    assert set(built) == {"one-punctual", "two-punctual", "example-app"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {one["image"] for one in built.values()} == {f"{project['name']}:{project['version']}"}
    assert built["example-app"]["healthcheck"] == {"disable": True}


def test_the_image_reports_its_health() -> None:
    """By a command of the image itself; the check waits for a slow start, not for a dead service."""
    text = (ROOT / "Dockerfile").read_text()
    check = re.search(r"(?m)^HEALTHCHECK (.*) CMD (\[.*\])$", text)
    assert check is not None
    assert dict(one[2:].split("=") for one in check[1].split()).keys() >= {
        "interval",
        "timeout",
        "start-period",
    }
    program, option, code = json.loads(check[2])
    assert (program, option) == ("python", "-c")
    assert "/health/ready" in code
