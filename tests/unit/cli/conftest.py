"""Commands run in an empty folder."""

from pathlib import Path

import pytest

from scheduler_service.cli.main import run
from tests.unit.cli.running import Ran


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty folder, and nothing of the caller's environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("PUNCTUAL_URL", "PUNCTUAL_KEY", "PUNCTUAL_CA", "PUNCTUAL_CONFIG", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def ran(capsys: pytest.CaptureFixture[str]) -> Ran:
    """Runs a command: (exit code, output, messages)."""

    def run_here(*arguments: str) -> tuple[int, str, str]:
        code = run(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_here
