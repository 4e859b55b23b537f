"""Files of definitions, before anything is sent (SPEC section 16)."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from client_sdk.client.call_retries import Patience
from client_sdk.client.connection import Connection
from scheduler_service.cli.definition_commands import MAX_DEFINITIONS, PAGE_BYTES
from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.jobs import apply_jobs
from scheduler_service.cli.service_connection import ApiConnection
from tests.unit.cli.running import Ran

BUSY = {"status": 503, "detail": "a process starts again", "errors": []}
ALLOWED = "limits.tenant_jobs allows 3"
LIMITED = {"status": 429, "detail": ALLOWED, "errors": [{"pointer": "", "code": "limit", "message": ALLOWED}]}
NOBODY = ("--url", "http://127.0.0.1:1")


def test_an_id_that_is_given_twice_is_refused_with_both_places(ran: Ran) -> None:
    """Of two definitions the second would win without a word; nothing is sent (16)."""
    Path("jobs.json").write_text('[{"jobId": "a"},\n{"jobId": "b"},\n{"jobId": "a"}]', encoding="utf-8")
    text = "jobs.json:3:11: jobId 'a' is given at jobs.json:1:12 already; choose another one"
    assert ran("jobs", "apply", "-f", "jobs.json", *NOBODY) == (2, "", f"punctual: {text}\n")
    # A declaration too has each id once: in `timers`, and in the source's `timer`
    for member in ("timers", "timer"):
        text = f'{{"{member}": [{{"jobId": "a"}},\n{{"jobId": "a"}}]}}'
        Path("s.json").write_text(text, encoding="utf-8")
        code, _, err = ran("services", "apply", "s", "-f", "s.json", *NOBODY)
        assert code == 2
        assert "s.json:2:11: jobId 'a' is given at s.json:1:" in err


@pytest.mark.parametrize("command", [("apply",), ("check",), ("diff",)])
def test_an_id_in_two_files_is_refused_with_both_places(ran: Ran, command: tuple[str, ...]) -> None:
    """Nothing is sent of either file (16)."""
    Path("one.json").write_text('{"jobId": "a"}', encoding="utf-8")
    Path("two.yaml").write_text("- jobId: b\n- jobId: a\n", encoding="utf-8")
    code, out, err = ran("jobs", *command, "-f", "one.json", "-f", "two.yaml", *NOBODY)
    assert (code, out) == (2, "")
    assert err == "punctual: two.yaml:2:10: jobId 'a' is given at one.json:1:11 already; choose another one\n"


def test_a_file_that_cannot_be_read_keeps_all_from_being_sent(ran: Ran) -> None:
    """Also where it is the last one (16)."""
    Path("one.json").write_text('{"jobId": "a"}', encoding="utf-8")
    code, _, err = ran("jobs", "apply", "-f", "one.json", "-f", "none.json", *NOBODY)
    assert (code, err) == (2, "punctual: none.json cannot be read: No such file or directory\n")


def apply_to(
    pages: list[int],
    files: list[Path],
    *,
    refusing: int = 0,
    problem: dict[str, Any] = BUSY,
    status: int = 503,
) -> list[int]:
    """The lengths of the arrays that are created at a service that answers so many, and then with `status`.

    The first `refusing` answers refuse the last two of their items with `problem`.
    """
    sent = []

    def answer(request: httpx.Request) -> httpx.Response:
        body: list[dict[str, Any]] = json.loads(request.content)
        if request.url.path == "/definitions/compare":
            new = {"status": "created", "problem": None, "warnings": [], "revision": None}
            items = [new | {"jobId": one["jobId"]} for one in body]
            return httpx.Response(200, json={"data": {"items": items}})
        sent.append(len(body))
        if len(sent) > len(pages):
            return httpx.Response(
                status, json={"title": "x", "detail": "it stops", "resp_code": 1, "errors": []}
            )
        done = {"status": "created", "problem": None, "warnings": []}
        items = [done | {"jobId": one["jobId"]} for one in body]
        if len(sent) <= refusing:
            items[-2:] = [one | {"status": "refused", "problem": problem} for one in items[-2:]]
        return httpx.Response(200, json={"data": {"items": items}})

    connection = ApiConnection(
        Connection(
            url="http://scheduler.test",
            key="k",
            timeout=1,
            patience=Patience(retries=0),
            transport=httpx.MockTransport(answer),
        )
    )
    try:
        apply_jobs(connection, files)
    finally:
        connection.close()
    return sent


def test_files_of_any_number_of_definitions_are_sent_in_pages(tmp_path: Path) -> None:
    """As many and as much as a request may have, whatever file they are in (10, 16)."""
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    one.write_text(json.dumps([{"jobId": f"a{n}"} for n in range(MAX_DEFINITIONS + 1)]), encoding="utf-8")
    two.write_text(json.dumps({"jobId": "b"}), encoding="utf-8")
    pages = [MAX_DEFINITIONS, 2]
    assert apply_to(pages, [one, two]) == pages
    large = "x" * (PAGE_BYTES // 3)
    two.write_text(json.dumps([{"jobId": f"b{n}", "x": large} for n in range(5)]), encoding="utf-8")
    assert apply_to([2, 2, 1], [two]) == [2, 2, 1]


def test_what_a_process_that_starts_again_did_not_take_is_sent_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """That alone; its results stand in order with the others (10, 16)."""
    file = tmp_path / "one.json"
    file.write_text(json.dumps([{"jobId": f"a{n}"} for n in range(5)]), encoding="utf-8")
    assert apply_to([5, 2], [file], refusing=1) == [5, 2]
    shown = capsys.readouterr().out
    assert [line.split() for line in shown.splitlines()[1:]] == [
        ["Job", f"a{n}", "created"] for n in range(5)
    ]


def test_results_are_shown_where_the_service_goes_away(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What was applied is not hidden by the error that follows (16)."""
    file = tmp_path / "one.json"
    file.write_text(json.dumps([{"jobId": f"a{n}"} for n in range(MAX_DEFINITIONS + 1)]), encoding="utf-8")
    with pytest.raises(CommandError, match=r"it stops; 1000 of 1001 have the results above") as e:
        apply_to([MAX_DEFINITIONS], [file])
    assert e.value.code == Exit.UNREACHABLE
    assert capsys.readouterr().out.count("created") == MAX_DEFINITIONS


def test_where_the_first_change_is_refused_there_is_no_table(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """As to a key that may only read: there is nothing to show (16)."""
    file = tmp_path / "one.json"
    file.write_text('[{"jobId": "a"}]', encoding="utf-8")
    with pytest.raises(CommandError, match=r"^it stops; apply the files again, which"):
        apply_to([], [file], status=403)
    assert capsys.readouterr().out == ""


def test_a_limit_that_many_documents_meet_is_told_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It is the tenant's, and no fault of a document (14, 16)."""
    file = tmp_path / "one.json"
    file.write_text(json.dumps([{"jobId": f"a{n}"} for n in range(5)]), encoding="utf-8")
    with pytest.raises(CommandError, match="3 created, 2 refused"):
        apply_to([5], [file], refusing=1, problem=LIMITED)
    assert capsys.readouterr().err == f"a3 and 1 more: {ALLOWED}\n"


def test_one_definition_has_one_id(ran: Ran) -> None:
    """From the file or the command line (16)."""
    file = Path("job.json")
    file.write_text("{}", encoding="utf-8")
    code, _, err = ran("jobs", "create", "-f", "job.json", *NOBODY)
    assert (code, "punctual jobs create JOB_ID -f FILE" in err) == (2, True)
    file.write_text('{"jobId": "a"}', encoding="utf-8")
    code, _, err = ran("jobs", "create", "b", "-f", "job.json", *NOBODY)
    assert code == 2
    assert "the command line says 'b', and job.json:1:11 says 'a'" in err
    file.write_text("[]", encoding="utf-8")
    assert "punctual jobs apply" in ran("jobs", "create", "-f", "job.json", *NOBODY)[2]
