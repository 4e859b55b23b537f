"""punctual lint and punctual doctor: what is wrong, and where (SPEC section 16)."""

import json
import re
from pathlib import Path

import pytest

from scheduler_service.cli.checking import MAX_LINES
from tests.unit.cli.running import ended

RIGHT = (
    '{"jobId": "a", "jobName": "A", "creator": "1", "creatorName": "one", "request": [{"url": "http://x/"}]}'
)


def test_a_definition_may_leave_its_id_to_the_path(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """`lint` takes a definition without `jobId`, as it is posted to `/jobs/{jobId}` (SPEC section 2)."""
    file = tmp_path / "job.json"
    file.write_text(RIGHT.replace('"jobId": "a", ', ""), encoding="utf-8")
    assert ended(capsys, "lint", str(file))[0] == 0


def test_lint_finds_an_id_that_is_given_twice(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """An array creates each job once: of two with one id the second would be refused, or win (16)."""
    file = tmp_path / "jobs.json"
    other = RIGHT.replace('"jobId": "a"', '"jobId": "b"')
    file.write_text(f"[{RIGHT},\n{other},\n{RIGHT}]", encoding="utf-8")
    code, out, _ = ended(capsys, "lint", str(file))
    assert code == 1
    assert out.startswith(f"{file}:3:11: error: /2/jobId: jobId 'a' is given at {file}:1:12 already; choose")
    assert out.count("\n") == 1


def test_lint_takes_several_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """All are checked, and an id that two have is an error with both places (16)."""
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    one.write_text(RIGHT, encoding="utf-8")
    two.write_text(f"[{RIGHT}]", encoding="utf-8")
    code, out, err = ended(capsys, "lint", str(one), str(two))
    assert (code, err) == (1, "punctual: 1 of 2 definitions are wrong\n")
    assert out.startswith(f"{two}:1:12: error: /0/jobId: jobId 'a' is given at {one}:1:11 already; choose")
    two.write_text(RIGHT.replace('"a"', '"b"'), encoding="utf-8")
    code, _, err = ended(capsys, "lint", str(one), str(two))
    assert (code, err) == (0, "2 definitions OK\n")


def test_lint_shows_so_many_findings_and_counts_the_others(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A file of 16 MiB may have a million of them."""
    file = tmp_path / "jobs.json"
    file.write_text(f"[{', '.join(['{}'] * MAX_LINES)}]", encoding="utf-8")
    code, out, err = ended(capsys, "lint", str(file))
    assert (code, out.count("\n")) == (1, MAX_LINES)
    assert f"{MAX_LINES} more are not shown\n" in err  # `jobName` and `request` are missing in each
    assert f"{MAX_LINES} of {MAX_LINES} definitions are wrong" in err


@pytest.mark.parametrize("suffix", ["json", "json5", "yaml"])
def test_a_number_of_many_digits_is_no_matter_of_python(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, suffix: str
) -> None:
    """What is said of it is about the file, not about settings of the interpreter."""
    file = tmp_path / f"job.{suffix}"
    file.write_text(RIGHT[:-1] + f', "sgn": {"1" * 5_000}}}', encoding="utf-8")
    code, out, err = ended(capsys, "lint", str(file))
    assert code in (1, 2)
    assert "range" in out + err
    assert "sys." not in out + err


def test_lint_says_what_is_wrong_and_where(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`FILE:LINE:COLUMN: error: POINTER: …`, exit code 1 (16)."""
    path = tmp_path / "jobs.json"
    path.write_text(f'[\n{RIGHT},\n{{"jobId": "b",\n  "sgn": 1}}\n]', encoding="utf-8")
    code, out, err = ended(capsys, "lint", str(path))
    assert code == 1
    assert f"{path}:4:10: error: /1/sgn: unknown field 'sgn'" in out
    assert f"{path}:3:1: error: /1/jobName: " in out
    assert "1 of 2 definitions are wrong" in err


def test_lint_is_content_with_what_is_right(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Exit code 0; warnings are told and are no errors (16)."""
    path = tmp_path / "job.json5"
    path.write_text(
        RIGHT[:-1]
        + ', "timer": {"dueTime": "1h"}, "notification": [{"url": "http://x/", "stateEquals": "500"}]}',
        encoding="utf-8",
    )
    code, out, err = ended(capsys, "lint", str(path))
    assert code == 0
    assert "warning: /notification:" in out
    assert "1 definition OK" in err


def test_lint_refuses_what_no_service_would_take(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Timers, templates and JSONPath are compiled as the service does it (16)."""
    path = tmp_path / "job.yaml"
    path.write_text(
        "jobId: a\njobName: A\ncreator: '1'\ncreatorName: one\n"
        "timer:\n  period: '61 * * * * ?'\nrequest:\n- url: 'http://x/${$.[}'\n- url: queue://\n",
        encoding="utf-8",
    )
    code, out, _ = ended(capsys, "lint", str(path))
    assert code == 1
    assert ":6:11: error: /timer/period:" in out
    assert ":8:8: error: /request/0/url:" in out
    assert ":9:8: error: /request/1/url: " in out


def test_lint_points_to_the_text_that_is_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A `checkUrl` or `timer` that is a text has no members to point to, as the service answers (5, 16)."""
    path = tmp_path / "job.json"
    path.write_text(
        RIGHT[:-1] + ',\n"checkUrl": "http://x:0/",\n"timer": "{\\"period\\": \\"x y\\"}"}', encoding="utf-8"
    )
    code, out, _ = ended(capsys, "lint", str(path))
    assert code == 1
    assert f"{path}:2:13: error: /checkUrl: the port" in out
    assert f"{path}:3:10: error: /timer: " in out


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
