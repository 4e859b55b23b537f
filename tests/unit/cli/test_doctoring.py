"""punctual doctor: what it prints, and how it ends."""

import json
import re
from pathlib import Path

import pytest

from scheduler_service.cli.main import commands
from tests.unit.cli.running import ended


def test_each_line_has_its_state(capsys: pytest.CaptureFixture[str]) -> None:
    """`ok`, `warning` or `failed`; a remedy stands below what is not ok; exit code 0 without a failed one."""
    code, out, err = ended(capsys, "doctor", "--port", "0")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    states = [line.split()[0] for line in lines]
    assert set(states) <= {"ok", "warning", "remedy:"}
    assert states.count("warning") == states.count("remedy:")
    assert not Path("data").exists()


def test_for_programs_it_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    """The worst state, and every finding with all its members."""
    code, out, _ = ended(capsys, "doctor", "--port", "0", "--data", ":memory:", "-o", "json")
    found = json.loads(out)
    assert code == 0
    assert found["state"] in ("ok", "warning")
    assert all(one.keys() == {"part", "check", "state", "detail", "remedy"} for one in found["findings"])


def test_what_failed_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    """The lines are there all the same."""
    code, out, err = ended(capsys, "doctor", "--port", "0", "--host", "0.0.0.0")
    assert code == 1
    assert re.search(r"(?m)^failed +settings +key: ", out)
    assert err == f"punctual: 1 of {len(re.findall(r'(?m)^(ok|warning|failed)', out))} checks failed\n"


def test_a_wrong_setting_is_exit_code_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for every command."""
    monkeypatch.setenv("PUNCTUAL_SERVER__NONSENSE", "1")
    assert ended(capsys, "doctor")[0] == 2
    monkeypatch.delenv("PUNCTUAL_SERVER__NONSENSE")
    assert ended(capsys, "doctor", "--runtime", "cloud")[0] == 2


def test_no_secret_is_shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither keys nor passwords of addresses nor variables, in any form."""
    monkeypatch.setenv("PUNCTUAL_SERVER__KEY", "hidden-hidden-hidden")
    monkeypatch.setenv("PUNCTUAL_CONTEXTS__URL", "redis://me:hidden@127.0.0.1:1/0")
    monkeypatch.setenv("PUNCTUAL_DATABASE__URL", "postgresql://me:hidden@127.0.0.1:1/x")
    monkeypatch.setenv("PUNCTUAL_ENV__default__TOKEN", "hidden")
    for form in ("table", "json", "yaml"):
        code, out, err = ended(capsys, "doctor", "--port", "0", "--runtime", "dapr", "-o", form)
        assert code == 1
        assert "hidden" not in out + err


def test_it_is_a_command() -> None:
    """Beside the others."""
    assert "doctor" in commands().commands
