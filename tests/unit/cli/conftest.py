"""Commands run in an empty folder."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty folder, and nothing of the caller's environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("PUNCTUAL_URL", "PUNCTUAL_KEY", "PUNCTUAL_CA", "PUNCTUAL_CONFIG", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
