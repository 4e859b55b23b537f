"""What the pages do in containers, done by the same commands in plain processes (no container is started)."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.unit.docs.pages import ROOT, fences, read
from tests.wire.processes.process import Process, bare_environment

pytestmark = pytest.mark.timeout(120)
KEY = "0123456789abcdef"
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def instruction(name: str) -> list[str]:
    """The words of CMD or of the HEALTHCHECK's command."""
    found = re.search(rf"(?m)^{name}(?: .*CMD)? (\[.*\])$", DOCKERFILE)
    assert found is not None
    words: list[str] = json.loads(found[1])
    return words


@contextmanager
def contained(folder: Path, port: str, **environ: str) -> Iterator[dict[str, str]]:
    """What the image starts, with `folder` in place of its volume; the environment of the container."""
    settings = {"PUNCTUAL_SERVER__KEY": KEY, "PUNCTUAL_SERVER__PORT": port, **environ}
    environment = bare_environment(PYTHONPATH=str(ROOT), **settings)
    command = [word.replace("/data", str(folder)) for word in instruction("CMD")]
    with Process(command, cwd=ROOT, environ=environment) as process:
        process.wait_for_url()
        yield environment
        assert process.stop() == 0


def commands(heading: str) -> str:
    """Those of a section that need no engine: `curl`, and what is executed in a container."""
    section = read("docs/operations.md").partition(f"\n{heading}\n")[2]
    block = fences(section, "text")[0].replace("\\\n", " ")
    lines = re.split(r"\n(?=\S)", block.strip())
    kept = [re.sub(r"^docker (compose )?exec \S+ ", "", line) for line in lines]
    return "\n".join(line for line in kept if not line.startswith(("docker ", "export ")))


def run(block: str, environ: dict[str, str], port: str) -> str:
    done = subprocess.run(
        ["sh", "-euc", block.replace("8000", port).replace("curl ", "curl -sS --fail-with-body ")],
        cwd=ROOT,
        env=environ | {"PUNCTUAL_URL": f"http://127.0.0.1:{port}"},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
    return done.stdout


def is_healthy(environ: dict[str, str]) -> bool:
    """What the engine learns from the image's own check."""
    done = subprocess.run(
        instruction("HEALTHCHECK"), env=environ, capture_output=True, timeout=30, check=False
    )
    return done.returncode == 0


def test_the_image_s_command_serves_and_is_healthy(tmp_path: Path) -> None:
    """The first job of the page runs, and a backup is made; what has ended is not healthy."""
    port = str(free_port())
    with contained(tmp_path / "data", port) as environ:
        assert is_healthy(environ)
        block = commands("## In a container").replace("/data", str(tmp_path / "data"))
        assert "succeeded" in run(block, environ, port)
        assert (tmp_path / "data" / "backups" / "one" / "backup.json").is_file()
    assert not is_healthy(environ)


@pytest.mark.long
def test_the_first_job_of_the_cluster_runs(tmp_path: Path) -> None:
    """Over the example target of the compose file, which is asked for progress until it says succeed."""
    port, other = str(free_port()), str(free_port())
    target = [sys.executable, "-m", "uvicorn", "examples.plain_asgi:app", "--port", other]
    static = json.dumps({"example": [f"http://127.0.0.1:{other}"]})
    with (
        Process(target, cwd=ROOT, environ=bare_environment(PYTHONPATH=str(ROOT))) as example,
        contained(tmp_path / "data", port, PUNCTUAL_SERVICES__STATIC=static) as environ,
    ):
        example.wait_for_line("Uvicorn running on")
        assert "succeeded" in run(commands("### With containers"), environ, port)
