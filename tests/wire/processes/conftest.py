"""One service per worker, for all tests that need no process of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler_service.cli.main import run
from tests.wire.processes.process import serve
from tests.wire.processes.terminal import Ended, Terminal


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running service."""
    data = tmp_path_factory.mktemp("service") / "data"
    # Tests leave work open: the end waits for none of it.
    with serve(data, PUNCTUAL_SERVER__DRAIN_SECONDS="0") as process:
        yield process.wait_for_url()
        assert process.stop() == 0


@pytest.fixture
def terminal(
    service: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Terminal:
    """The command line in an empty folder, speaking to the service."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PUNCTUAL_URL", service)
    for name in ("PUNCTUAL_KEY", "PUNCTUAL_CONFIG"):
        monkeypatch.delenv(name, raising=False)

    def enter(*arguments: str) -> Ended:
        code = run(list(arguments))
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return Terminal(enter=enter, service=service, folder=tmp_path)
