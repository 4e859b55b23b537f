"""Every Python example of docs/sdk.md runs as it stands."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.docs.pages import fences, read
from tests.wire.processes.process import bare_environment

EXAMPLES = fences(read("docs/sdk.md"), "python")
CHECK = """
import sys
from client_sdk import Service, Worker
for one in list(globals().values()):
    if isinstance(one, Service | Worker):
        print(type(one).__name__, *(job["jobId"] for job in one.definitions()))
"""


SILENT = ("Verifier", "client.events(")
"""Of examples that print nothing where nothing happens."""


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_the_examples_run(number: int, service: str, tmp_path: Path) -> None:
    """As scripts of their own against a real service; what declares jobs can be registered."""
    text = EXAMPLES[number].replace("http://127.0.0.1:8000", service)
    (tmp_path / "invoices.py").write_text(text + CHECK, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "invoices.py"],
        cwd=tmp_path,
        env=bare_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout or any(word in text for word in SILENT)


def test_there_are_examples_of_everything() -> None:
    """Client, blocking client, service, signature, worker, lite."""
    text = "".join(EXAMPLES)
    for name in ("Client", "BlockingClient", "Service", "Verifier", "Worker", "LiteJob"):
        assert name in text
