"""A schedule of files against the real API: planned, applied, pruned, interrupted (SPEC section 16)."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.jobs import apply_jobs, diff_jobs
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.security.key_ring import KeyRing
from tests.manual_clock import ManualClock
from tests.unit.api.stores import START
from tests.unit.api.world import definition
from tests.unit.cli.moved import NINE, Killed, Moved, code_of, do_nothing, job, write
from tests.unit.security.memory_keys import MemoryKeys


@pytest.fixture
def moved() -> Moved:
    return Moved()


def write_schedule(name: str = "a job") -> None:
    """A folder that is a team's whole schedule; in its order jobs come before the calendar."""
    service = {"kind": "Service", "name": "shop", "graceSeconds": 5, "timers": [job("of-shop", timer=NINE)]}
    write("all/a.yaml", job("a", jobName=name), [job("b", timer=NINE, jobName=name)])
    write("all/deep/c.json", {"kind": "Job", **job("c", jobName=name)})
    write("all/shop.yml", service)
    write("all/z/office.yaml", {"kind": "Calendar", "name": "office", "free": ["2026-01-05"]})
    write("all/.git/x.json", "no definition")
    Path("all/README.md").write_text("no definition", encoding="utf-8")


def test_one_folder_is_a_whole_schedule(moved: Moved, capsys: pytest.CaptureFixture[str]) -> None:
    """Calendars before services before jobs; the second time there is nothing to do."""
    write_schedule()
    assert code_of(lambda: moved.run(diff_jobs, "all")) == 1
    assert moved.wire.changes == []
    capsys.readouterr()
    moved.apply("all")
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert rows == [
        ["Calendar", "office", "created"],
        ["Service", "shop", "created"],
        *(["Job", name, "created"] for name in ("a", "b", "c")),
    ]
    assert moved.wire.changes == ["PUT /calendars/office", "PUT /services/shop", "POST /jobs"]
    assert set(moved.jobs()) == {"a", "b", "c", "of-shop"}
    assert code_of(lambda: moved.run(diff_jobs, "all")) == 0
    assert "no difference" in capsys.readouterr().out
    moved.wire.changes.clear()
    moved.apply("all")
    assert moved.wire.changes == ["PUT /calendars/office"]
    assert {line.split()[2] for line in capsys.readouterr().out.splitlines()[1:]} == {"unchanged"}


def test_of_a_service_only_what_differs_is_shown(moved: Moved, capsys: pytest.CaptureFixture[str]) -> None:
    """Not what the service has filled in, nor the order of its jobs."""
    jobs = [{"jobId": name, "jobName": name, "request": [{"url": "service:/x"}]} for name in "ab"]
    service = {"kind": "Service", "name": "shop", "address": "http://10.0.0.7:8080/"}
    moved.apply(write("s.yaml", service | {"timers": jobs}))
    assert code_of(lambda: moved.run(diff_jobs, write("s.yaml", service | {"timers": jobs[::-1]}))) == 0
    assert code_of(lambda: moved.run(diff_jobs, write("s.yaml", service))) == 0
    changed = service | {"timers": [*jobs, {**jobs[0], "jobId": "c"}], "tags": ["eu"]}
    capsys.readouterr()
    assert code_of(lambda: moved.run(diff_jobs, write("s.yaml", changed))) == 1
    lines = [line for line in capsys.readouterr().out.splitlines()[2:] if line[0] in "+-"]
    assert [line for line in lines if line[0] == "-"] == ['-  "tags": [],']
    assert '+      "jobId": "c",' in lines


def test_a_difference_is_shown_and_applied(moved: Moved, capsys: pytest.CaptureFixture[str]) -> None:
    """Of each kind; what is the same is not sent."""
    write_schedule()
    moved.apply("all")
    write("all/a.yaml", job("a", jobName="new"), [job("b", timer=NINE)])
    write("all/shop.yml", {"kind": "Service", "name": "shop", "graceSeconds": 9})
    write("all/z/office.yaml", {"kind": "Calendar", "name": "office", "free": ["2026-01-06"]})
    capsys.readouterr()
    assert code_of(lambda: moved.run(diff_jobs, "all")) == 1
    shown = capsys.readouterr()
    for line in (
        '+    "2026-01-06"',
        '+  "graceSeconds": 9.0,',
        '+  "jobName": "new",',
        '-  "jobName": "a job",',
    ):
        assert line in shown.out.splitlines()
    assert shown.err == "apply would do this: 3 updated, 2 unchanged\n"
    moved.wire.changes.clear()
    moved.apply("all")
    assert moved.wire.changes == ["PUT /calendars/office", "PUT /services/shop", "POST /jobs/a/update"]
    assert code_of(lambda: moved.run(diff_jobs, "all")) == 0


WRONG: dict[str, tuple[Any, str]] = {
    "a job": (job("x", qos=7), "all/x.json:1:"),
    "a template": (job("x", request=[{"url": "${"}]), "/request/0/url: "),
    "a calendar": ({"kind": "Calendar", "name": "x", "week": [8]}, "/week/0: "),
    "a calendar's name": ({"kind": "Calendar", "name": "x y"}, "'x y' is no name of a calendar"),
    "a service": ({"kind": "Service", "name": "x", "grace": 1}, "/grace: "),
    "a job of a service": ({"kind": "Service", "name": "x", "timers": [job("y", qos=7)]}, "/timers/0/qos: "),
    "a calendar that is nowhere": (job("x", timer={**NINE, "calendar": "none"}), "no calendar 'none'"),
    "a kind": ({"kind": "Cron", "jobId": "x"}, "kind 'Cron' is none of Calendar, Job, Service"),
    "no name": ({"kind": "Service"}, "a Service without a name"),
    "no id": ({"jobName": "x"}, "a definition without a jobId"),
    "a declaration": ({"timers": []}, "give it 'kind: Service'"),
    "twice": (job("a"), "jobId 'a' is given at all/a.yaml:1:"),
    "declared, too": ({"kind": "Service", "name": "x", "timers": [job("a")]}, "is given at all/a.yaml:1:"),
}


@pytest.mark.parametrize("what", WRONG)
def test_one_wrong_document_keeps_all_from_being_changed(
    moved: Moved, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    """Its place is said; all are checked before the first is changed."""
    write_schedule()
    value, said = WRONG[what]
    write("all/x.json", value)
    told = []
    for command in (apply_jobs, diff_jobs):
        if what == "a declaration" and command is diff_jobs:
            continue
        with pytest.raises(CommandError) as caught:
            moved.run(command, "all")
        told.append(caught.value.message + capsys.readouterr().err)
        assert caught.value.code >= (1 if command is apply_jobs else 2)
        assert said in told[-1]
    assert moved.wire.changes == []


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_command_that_is_killed_is_repeated(moment: str) -> None:
    """At each request that changes something, before it and after it; then it completes (faults)."""
    write_schedule()

    def apply(place: Moved) -> None:
        place.apply("all", prune=True, label=["team:shop"], yes=True)

    def prepare(place: Moved) -> None:
        place.ask("POST", "/jobs/gone", job("gone"))
        place.ask("POST", "/jobs/a", job("a", jobName="old"))
        place.wire.changes.clear()

    whole = Moved()
    prepare(whole)
    apply(whole)
    expected = whole.jobs()
    assert set(expected) == {"a", "b", "c", "of-shop"}
    count = len(whole.wire.changes)
    assert count == 5
    for killed_at in range(1, count + 1):
        place = Moved()
        prepare(place)

        async def kill(number: int, at: int = killed_at) -> None:
            if number == at:
                raise Killed

        setattr(place.wire, moment, kill)
        with pytest.raises(Killed):
            apply(place)
        place.wire.before = place.wire.after = do_nothing
        apply(place)
        assert place.jobs() == expected
        place.wire.changes.clear()
        apply(place)
        assert place.wire.changes == ["PUT /calendars/office"]


def test_an_interrupted_command_says_what_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    place, count = Moved(), 3

    async def interrupt(number: int) -> None:
        if number == count:
            raise KeyboardInterrupt

    write_schedule()
    place.ask("POST", "/jobs/a", job("a", jobName="old"))
    place.wire.changes.clear()
    place.wire.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        place.apply("all")
    told = capsys.readouterr()
    assert [line.split() for line in told.out.splitlines()[1:3]] == [
        ["Calendar", "office", "created"],
        ["Service", "shop", "created"],
    ]
    assert "interrupted; 2 of 5 have the results above; apply the files again" in told.err


def edit_once(moved: Moved, method: str, path: str, body: Any) -> None:
    """Somebody does this just before the next change of the command."""

    async def edit(number: int) -> None:
        moved.wire.before = do_nothing
        answer = await moved.world.client().request(method, path, json=body)
        assert answer.is_success

    moved.wire.before = edit


def test_a_job_that_was_changed_meanwhile_is_left_as_it_is(
    moved: Moved, capsys: pytest.CaptureFixture[str]
) -> None:
    """Between the plan and the change: it is named, and the others are done."""
    for name in "ab":
        moved.ask("POST", f"/jobs/{name}", job(name))
    write("all.yaml", *(job(name, jobName="new") for name in "abc"))
    edit_once(moved, "POST", "/jobs/a/update", job("a", jobName="by hand"))
    with pytest.raises(CommandError, match="1 created, 1 updated, 1 refused: what was refused is as it was"):
        moved.apply("all.yaml")
    assert moved.jobs() == {"a": "by hand", "b": "new", "c": "new"}
    assert "a: somebody has changed it meanwhile: it is left as it is" in capsys.readouterr().err
    moved.apply("all.yaml")
    write("more.yaml", job("d"))
    edit_once(moved, "POST", "/jobs/d", job("d", jobName="by hand"))
    with pytest.raises(CommandError, match="1 refused"):
        moved.apply("more.yaml")
    assert moved.jobs()["d"] == "by hand"
    write("office.yaml", {"kind": "Calendar", "name": "office"})
    edit_once(moved, "PUT", "/calendars/office", {"week": [6]})
    with pytest.raises(CommandError, match="1 refused"):
        moved.apply("office.yaml")
    assert moved.ask("GET", "/calendars/office")["week"] == [6]


def prepare_pruning(moved: Moved) -> None:
    """`a` and `b` have the label; and so have a child of an execution, and a job that a service declares."""
    for name in ("a", "b", "other"):
        moved.ask("POST", f"/jobs/{name}", job(name) if name != "other" else definition())
    moved.ask("POST", "/jobs/child", job("child", parentJob="a", parentJobExecution=1))
    moved.ask("PUT", "/services/s", {"timers": [job("declared")]})
    moved.wire.changes.clear()


def prune(moved: Moved, *files: str, **options: Any) -> None:
    moved.apply(*files, **{"prune": True, "label": ["team:shop"], **options})


def test_pruning_destroys_what_the_label_has_and_the_files_have_not(
    moved: Moved, capsys: pytest.CaptureFixture[str]
) -> None:
    """Named before it is done, and only where somebody agrees; not what executions or services have made."""
    prepare_pruning(moved)
    write("all.yaml", job("a"))
    with pytest.raises(
        CommandError, match="1 job would be destroyed; nothing was changed: add --yes"
    ) as caught:
        prune(moved, "all.yaml")
    assert (caught.value.code, moved.wire.changes) == (Exit.USAGE, [])
    assert capsys.readouterr().err == "is to be destroyed: b\n"
    prune(moved, "all.yaml", dry_run=True)
    assert "Job   b     destroyed" in capsys.readouterr().out
    options: dict[str, Any] = {"prune": True, "label": ["team:shop"]}
    assert code_of(lambda: moved.run(diff_jobs, "all.yaml", **options)) == 1
    shown = capsys.readouterr()
    assert '-  "jobId": "b",' in shown.out
    assert shown.err == "apply would do this: 1 destroyed, 1 unchanged\n"
    assert moved.wire.changes == []
    prune(moved, "all.yaml", yes=True)
    assert moved.wire.changes == ["DELETE /jobs/b"]
    assert set(moved.jobs()) == {"a", "other", "child", "declared"}


def test_pruning_is_refused_where_it_is_likely_a_mistake(
    moved: Moved, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a label, and where the files hold no job at all; jobs without the label are named."""
    prepare_pruning(moved)
    Path("empty").mkdir()
    for options in ({"label": []}, {"prune": False}, {"label": ["team"]}, {}):
        with pytest.raises(CommandError) as caught:
            prune(moved, "empty", yes=True, **options)
        assert caught.value.code is Exit.USAGE
    write("calendar.yaml", {"kind": "Calendar", "name": "office"})
    with pytest.raises(CommandError, match="add --allow-empty if that is meant"):
        prune(moved, "calendar.yaml", yes=True)
    assert moved.wire.changes == []
    prune(moved, "empty", yes=True, allow_empty=True)
    assert set(moved.jobs()) == {"other", "child", "declared"}
    write("all.yaml", job("a") | {"labels": {}})
    prune(moved, "all.yaml")
    assert (
        "1 jobs of the files lack team:shop, so that --prune never destroys them: a"
        in capsys.readouterr().err
    )


def test_what_changed_before_it_is_destroyed_stays(moved: Moved) -> None:
    """As where somebody has taken the label off: it is not what was agreed to."""
    prepare_pruning(moved)
    write("all.yaml", job("new"))
    edit_once(moved, "POST", "/jobs/b/update", job("b", jobName="by hand"))
    with pytest.raises(CommandError, match="1 created, 1 destroyed, 1 refused"):
        prune(moved, "all.yaml", yes=True)
    assert {"b", "new"} <= set(moved.jobs())
    assert "a" not in moved.jobs()


def test_a_turn_that_fails_for_now_is_asked_for_again(moved: Moved) -> None:
    """As where a process starts again: the change is made once (10)."""
    moved.ask("POST", "/jobs/a", job("a"))
    write("all.yaml", job("a", jobName="new"))
    moved.world.faults.append(StoreUnavailable("it starts again"))
    moved.apply("all.yaml")
    assert moved.jobs() == {"a": "new"}
    assert moved.wire.changes[-2:] == ["POST /jobs/a/update"] * 2
    assert moved.ask("GET", "/jobs/a")["revision"] == 2


def test_an_id_that_is_another_part_s_is_named_and_the_rest_applied(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With a key for a part, of a job that there is and of one that was destroyed; neither is changed."""
    clock = ManualClock(wall=START)
    ring = KeyRing(table=MemoryKeys(), clock=clock)
    moved = Moved(admin_key="the-key-of-the-settings", key_ring=ring, clock=clock)
    moved.key = "the-key-of-the-settings"
    for name in ("there", "gone"):
        moved.ask("POST", f"/jobs/{name}", {**job(name, jobName="theirs"), "labels": {"team": "other"}})
    moved.ask("DELETE", "/jobs/gone")
    asked = {"name": "part", "role": "editor", "labels": ["team:shop"]}
    moved.key = moved.ask("POST", "/keys", asked)["key"]
    write("all.yaml", job("there"), job("gone"), job("own"))
    for run in (lambda: moved.run(diff_jobs, "all.yaml"), lambda: moved.apply("all.yaml")):
        assert code_of(run) in (Exit.REFUSED, Exit.USAGE)
        told = capsys.readouterr().err
        for name in ("there", "gone"):
            assert f"the id {name!r} is not free for this key; choose another" in told
    assert moved.jobs() == {}
    write("all.yaml", job("own"))
    moved.apply("all.yaml")
    assert moved.jobs() == {"own": "a job"}
    moved.key = "the-key-of-the-settings"
    assert moved.jobs() == {"own": "a job", "there": "theirs"}


def test_with_the_key_of_nobody_a_difference_cannot_be_told(moved: Moved) -> None:
    """It does not end as a difference does: a check would take one for the other."""
    moved.world.fault = None
    write("all.yaml", job("a"))
    refusing = httpx.MockTransport(lambda request: httpx.Response(401, json=UNKNOWN_KEY))
    moved.wire = refusing  # type: ignore[assignment]
    with pytest.raises(CommandError) as caught:
        moved.run(diff_jobs, "all.yaml")
    assert caught.value.code is Exit.USAGE


UNKNOWN_KEY = {"title": "x", "detail": "no key", "status": 401, "resp_code": 401, "errors": []}
