"""Files of definitions, before anything is sent (SPEC section 16)."""

from pathlib import Path

import pytest

from tests.unit.cli.running import ended

NOBODY = ("--url", "http://127.0.0.1:1")


def test_an_id_that_is_given_twice_is_refused_with_both_places(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Of two definitions the second would win without a word; nothing is sent (16)."""
    (tmp_path / "jobs.json").write_text(
        '[{"jobId": "a"},\n{"jobId": "b"},\n{"jobId": "a"}]', encoding="utf-8"
    )
    text = "jobs.json:3:11: jobId 'a' is given at jobs.json:1:12 already; choose another one"
    assert ended(capsys, "jobs", "apply", "-f", "jobs.json", *NOBODY) == (2, "", f"punctual: {text}\n")


def test_a_declaration_too_has_each_id_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """In `timers`, and in the source's `timer` (16)."""
    for member in ("timers", "timer"):
        text = f'{{"{member}": [{{"jobId": "a"}},\n{{"jobId": "a"}}]}}'
        (tmp_path / "s.json").write_text(text, encoding="utf-8")
        code, _, err = ended(capsys, "services", "apply", "s", "-f", "s.json", *NOBODY)
        assert code == 2
        assert "s.json:2:11: jobId 'a' is given at s.json:1:" in err


def test_one_definition_has_one_id(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """From the file or the command line (16)."""
    file = tmp_path / "job.json"
    file.write_text("{}", encoding="utf-8")
    code, _, err = ended(capsys, "jobs", "create", "-f", "job.json", *NOBODY)
    assert (code, "punctual jobs create JOB_ID -f FILE" in err) == (2, True)
    file.write_text('{"jobId": "a"}', encoding="utf-8")
    code, _, err = ended(capsys, "jobs", "create", "b", "-f", "job.json", *NOBODY)
    assert code == 2
    assert "the command line says 'b', and job.json:1:11 says 'a'" in err
    file.write_text("[]", encoding="utf-8")
    assert "punctual jobs apply" in ended(capsys, "jobs", "create", "-f", "job.json", *NOBODY)[2]
