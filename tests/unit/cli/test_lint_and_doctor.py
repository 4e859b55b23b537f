"""punctual lint and punctual doctor: what is wrong, and where (SPEC section 16)."""

import json
import re
from pathlib import Path

import pytest

from scheduler_service.cli.lint_and_doctor import MAX_LINES
from tests.rows import each_row
from tests.unit.cli.running import Ran

RIGHT = (
    '{"jobId": "a", "jobName": "A", "creator": "1", "creatorName": "one", "request": [{"url": "http://x/"}]}'
)


def written(text: str, name: str = "job.json") -> str:
    """The name of a file with this text."""
    Path(name).write_text(text, encoding="utf-8")
    return name


def test_a_definition_may_leave_its_id_to_the_path(ran: Ran) -> None:
    """`lint` takes a definition without `jobId`, as it is posted to `/jobs/{jobId}` (SPEC section 2)."""
    assert ran("lint", written(RIGHT.replace('"jobId": "a", ', "")))[0] == 0
    # Which there are, a service knows; a wrong use of one is found
    for period, code in (("0 0 9 * * ?", 0), ("external", 1)):
        timer = json.dumps({"period": period, "calendar": "office"})
        found, out, _ = ran("lint", written(RIGHT.replace("{", f'{{"timer": {timer}, ', 1)))
        assert (found, "/timer/calendar" in out) == (code, bool(code)), out


def test_lint_finds_an_id_that_is_given_twice(ran: Ran) -> None:
    """An array creates each job once: of two with one id the second would be refused, or win (16)."""
    other = RIGHT.replace('"jobId": "a"', '"jobId": "b"')
    code, out, _ = ran("lint", written(f"[{RIGHT},\n{other},\n{RIGHT}]"))
    assert code == 1
    assert out.startswith(
        "job.json:3:11: error: /2/jobId: jobId 'a' is given at job.json:1:12 already; choose"
    )
    assert out.count("\n") == 1
    # Lint takes several files: all are checked, and an id that two have is an error with both places
    one, two = written(RIGHT, "one.json"), written(f"[{RIGHT}]", "two.json")
    code, out, err = ran("lint", one, two)
    assert (code, err) == (1, "punctual: 1 of 2 definitions are wrong\n")
    assert out.startswith(f"{two}:1:12: error: /0/jobId: jobId 'a' is given at {one}:1:11 already; choose")
    code, _, err = ran("lint", one, written(RIGHT.replace('"a"', '"b"'), two))
    assert (code, err) == (0, "2 definitions OK\n")


def test_lint_shows_so_many_findings_and_counts_the_others(ran: Ran) -> None:
    """A file of 16 MiB may have a million of them."""
    code, out, err = ran("lint", written(f"[{', '.join(['{}'] * MAX_LINES)}]"))
    assert (code, out.count("\n")) == (1, MAX_LINES)
    assert f"{MAX_LINES} more are not shown\n" in err  # `jobName` and `request` are missing in each
    assert f"{MAX_LINES} of {MAX_LINES} definitions are wrong" in err


@each_row("name", ["job.json", "job.json5", "job.yaml"])
def test_a_number_of_many_digits_is_no_matter_of_python(ran: Ran, name: str) -> None:
    """What is said of it is about the file, not about settings of the interpreter."""
    code, out, err = ran("lint", written(RIGHT[:-1] + f', "sgn": {"1" * 5_000}}}', name))
    assert code in (1, 2)
    assert "range" in out + err
    assert "sys." not in out + err


MANY = f'[\n{RIGHT},\n{{"jobId": "b",\n  "sgn": 1}}\n]'
UNCOMPILED = """\
jobId: a
jobName: A
creator: '1'
creatorName: one
timer:
  period: '61 * * * * ?'
request:
- url: 'http://x/${$.[}'
- url: queue://
"""
TEXTS = RIGHT[:-1] + ',\n"checkUrl": "http://x:0/",\n"timer": "{\\"period\\": \\"x y\\"}"}'


@each_row(
    ("name", "text", "said"),
    [
        ("job.json", MANY, (":4:10: error: /1/sgn: unknown field 'sgn'", ":3:1: error: /1/jobName: ")),
        ("job.yaml", UNCOMPILED, (":6:11: error: /timer/period:", ":8:8: error: /request/0/url:")),
        ("job.yaml", UNCOMPILED, (":9:8: error: /request/1/url: ",)),
        ("job.json", TEXTS, (":2:13: error: /checkUrl: the port", ":3:10: error: /timer: ")),
    ],
)
def test_lint_says_what_is_wrong_and_where(ran: Ran, name: str, text: str, said: tuple[str, ...]) -> None:
    """`FILE:LINE:COLUMN: error: POINTER: …`, as the service compiles it; exit code 1 (16)."""
    code, out, err = ran("lint", written(text, name))
    assert (code, "definitions are wrong" in err) == (1, True)
    assert [one for one in said if f"{name}{one}" not in out] == []


def test_lint_is_content_with_what_is_right(ran: Ran) -> None:
    """Exit code 0; warnings are told and are no errors (16)."""
    further = ', "timer": {"dueTime": "1h"}, "notification": [{"url": "http://x/", "stateEquals": "500"}]}'
    code, out, err = ran("lint", written(RIGHT[:-1] + further, "job.json5"))
    assert (code, "warning: /notification:" in out, "1 definition OK" in err) == (0, True, True)


def test_lint_checks_the_files_beside_one_that_it_cannot_read(ran: Ran) -> None:
    """Each of those is named, whatever keeps it from being read; exit code 2 (16)."""
    Path("all/sub").mkdir(parents=True)
    Path("all/linked").symlink_to("sub")
    Path("all/bytes.json").write_bytes(b"\xff")
    written('{"kind": "Cron"}', "all/kind.json")
    written("{", "all/open.json")
    written(RIGHT.replace("http", "gopher"), "all/zone.json")
    written(RIGHT.replace('"a"', '"b"'), "all/sub/good.json")
    code, out, err = ran("lint", "all", "none.json")
    assert code == 2
    assert out.startswith("all/zone.json:1:")
    assert out.count("\n") == 1
    named = ("all/bytes.json is not UTF-8", "all/linked is a link", "all/open.json is not valid JSON")
    named += ("all/kind.json:1:10: kind 'Cron'", "none.json cannot be read", "1 of 2 definitions are wrong")
    assert [one for one in named if one not in err] == []
    assert err.count("\n") == len(named)


def test_each_line_has_its_state(ran: Ran) -> None:
    """`ok`, `warning` or `failed`; a remedy stands below what is not ok; exit code 0 without a failed one."""
    code, out, err = ran("doctor", "--port", "0")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    states = [line.split()[0] for line in lines]
    assert set(states) <= {"ok", "warning", "remedy:"}
    assert states.count("warning") == states.count("remedy:")
    assert not Path("data").exists()
    # The worst state, and every finding with all its members
    code, out, _ = ran("doctor", "--port", "0", "--data", ":memory:", "-o", "json")
    found = json.loads(out)
    assert code == 0
    assert found["state"] in ("ok", "warning")
    assert all(one.keys() == {"part", "check", "state", "detail", "remedy"} for one in found["findings"])
    # What failed is exit code 1: the lines are there all the same
    code, out, err = ran("doctor", "--port", "0", "--host", "0.0.0.0")
    assert code == 1
    assert re.search(r"(?m)^failed +settings +key: ", out)
    assert err == f"punctual: 1 of {len(re.findall(r'(?m)^(ok|warning|failed)', out))} checks failed\n"


def test_a_wrong_setting_is_exit_code_2(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for every command."""
    monkeypatch.setenv("PUNCTUAL_SERVER__NONSENSE", "1")
    assert ran("doctor")[0] == 2
    monkeypatch.delenv("PUNCTUAL_SERVER__NONSENSE")
    assert ran("doctor", "--runtime", "cloud")[0] == 2


def test_no_secret_is_shown(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither keys nor passwords of addresses nor variables, in any form."""
    monkeypatch.setenv("PUNCTUAL_SERVER__KEY", "hidden-hidden-hidden")
    monkeypatch.setenv("PUNCTUAL_CONTEXTS__URL", "redis://me:hidden@127.0.0.1:1/0")
    monkeypatch.setenv("PUNCTUAL_DATABASE__URL", "postgresql://me:hidden@127.0.0.1:1/x")
    monkeypatch.setenv("PUNCTUAL_ENV__default__TOKEN", "hidden")
    for form in ("table", "json", "yaml"):
        code, out, err = ran("doctor", "--port", "0", "--runtime", "dapr", "-o", form)
        assert code == 1
        assert "hidden" not in out + err


def test_lint_checks_each_kind(ran: Ran) -> None:
    """The form of calendars and services, and each job that a service declares; calendars may be any (16).

    What holds nothing is no file that is right.
    """
    good = {"jobId": "a", "jobName": "a", "request": [{"url": "http://x.test"}]}
    nine = good | {"timer": {"period": "0 0 9 * * ?", "calendar": "office"}}
    calendar = {"kind": "Calendar", "name": "office", "free": ["2026-01-05"]}
    documents = [
        calendar,
        {"kind": "Service", "name": "s", "timers": [good]},
        nine | {"jobId": "b", "kind": "Job"},
    ]
    Path("all.json").write_text(json.dumps(documents), encoding="utf-8")
    assert ran("lint", "all.json") == (0, "", "3 definitions OK\n")
    for name, nothing in (("all.json", "[]"), ("all.yaml", ""), ("all.yaml", "# later\n---\n")):
        Path(name).write_text(nothing, encoding="utf-8")
        assert ran("lint", name) == (
            2,
            "",
            f"punctual: there is no definition in {name}: nothing was checked\n",
        )
    wrong = [
        {"kind": "Calendar", "week": [8]},
        {"kind": "Service", "name": "s", "grace": 1, "timers": [good | {"qos": 7}]},
    ]
    Path("all.json").write_text(json.dumps(wrong), encoding="utf-8")
    code, out, _ = ran("lint", "all.json")
    assert code == 1
    assert [line.split("error: ")[1].split(": ")[0] for line in out.splitlines()] == [
        "/0/week/0",
        "/0/name",
        "/1/grace",
        "/1/timers/0/qos",
    ]
    assert ran("jobs", "check", "-f", "all.json", "--url", "http://127.0.0.1:1")[0] == 2
