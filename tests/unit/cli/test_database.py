"""punctual db: the formats of a data folder (SPEC section 16)."""

from pathlib import Path

import pytest

from tests.unit.cli.running import ended


def test_with_the_state_elsewhere_the_history_is_looked_at(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`db migrate` is about the files of the data folder (16); `db check` says what it did not see."""
    monkeypatch.setenv("PUNCTUAL_STORE__URL", "redis://127.0.0.1:1/0")
    assert ended(capsys, "db", "check", "--data", str(tmp_path))[0] == 1
    assert ended(capsys, "db", "migrate", "--data", str(tmp_path))[0] == 0
    code, _, said = ended(capsys, "db", "check", "--data", str(tmp_path))
    assert (code, "the jobs in redis://127.0.0.1:1/0 were not looked at" in said) == (3, True), said
    assert not (tmp_path / "state.db").exists()


def test_a_folder_that_no_service_has_used_is_not_to_be_migrated(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A wrong `--data` is the likely cause: a migration would make an empty folder there."""
    code, _, said = ended(capsys, "db", "check", "--data", str(tmp_path / "none"))
    assert (code, "--data" in said, "migrate" in said) == (1, True, False), said
    assert not (tmp_path / "none").exists()
