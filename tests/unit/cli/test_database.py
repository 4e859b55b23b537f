"""punctual db: the formats of a data folder (SPEC section 16)."""

from pathlib import Path

import pytest

from tests.unit.cli.running import ended


def test_a_folder_that_no_service_has_used_is_not_to_be_migrated(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A wrong `--data` is the likely cause: a migration would make an empty folder there."""
    code, _, said = ended(capsys, "db", "check", "--data", str(tmp_path / "none"))
    assert (code, "--data" in said, "migrate" in said) == (1, True, False), said
    assert not (tmp_path / "none").exists()
