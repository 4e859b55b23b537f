"""The rounds of a desk: what happens to the service, what is noted and said over a crash, who leads."""

import asyncio
from pathlib import Path

import pytest

from scheduler_service.domain.audit_acts import Act, OwnAct, act_of_system
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.records import Audited
from scheduler_service.ports.errors import StoreUnavailable
from tests.unit.telemetry.alerts.desk_rig import Cut, DeskRig, at_a_desk, rule


async def test_what_is_lost_is_said_once_and_its_end(tmp_path: Path) -> None:
    """By its subject; of what the rules are not for nothing is kept."""
    async with at_a_desk(tmp_path, rule("storeLost")) as rig:
        for _ in range(3):
            rig.happens("storeLost")
            await rig.rounds()
        rig.happens("workerLost", "1")
        rig.happens("storeBack", "history")
        await rig.rounds()
        assert rig.told() == [("storeLost", "service", 1)]
        rig.happens("storeBack")
        await rig.rounds()
        assert rig.told()[1:] == [("recovered", "service", 1)]


async def test_a_worker_process_that_runs_again_has_its_stores_again(tmp_path: Path) -> None:
    """The one that was killed could not say so; those of others stay lost."""
    async with at_a_desk(tmp_path, rule("storeLost")) as rig:
        for subject in ("worker 1", "worker 1/history", "worker 11"):
            rig.happens("storeLost", subject)
        await rig.rounds()
        rig.happens("workerBack", "1")
        await rig.rounds()
        assert [one[:2] for one in rig.told()[3:]] == [
            ("recovered", "worker 1"),
            ("recovered", "worker 1/history"),
        ]
        (line,) = await rig.table.open((), 10)
        assert line.subject == "worker 11"


async def test_what_the_last_process_lost_is_over_with_the_next_start(tmp_path: Path) -> None:
    """It ended before it could see the end; an instance may still be away."""
    async with at_a_desk(tmp_path, rule("storeLost", "workerLost", "instanceLost")) as rig:
        rig.happens("storeLost")
        rig.happens("workerLost", "1")
        rig.happens("instanceLost", "mail/a")
        await rig.rounds()
        assert len(rig.told()) == 3
        rig.open()
        await rig.rounds()
        assert sorted(rig.told()[3:]) == [("recovered", "1", 1), ("recovered", "service", 1)]
        (line,) = await rig.table.open((), 10)
        assert line.subject == "mail/a"


async def test_what_cannot_be_kept_waits_in_its_order(tmp_path: Path) -> None:
    """A history that is away for a round loses no happening and doubles none."""
    async with at_a_desk(tmp_path, rule("storeLost")) as rig:
        cut = Cut(rig.table, 0, behind=False)
        rig.open(cut)
        rig.happens("storeLost", "history")
        rig.happens("storeLost")
        rig.happens("storeBack", "history")
        with pytest.raises(StoreUnavailable):
            await rig.rounds()
        assert rig.told() == []
        cut.mend()
        await rig.rounds()
        assert sorted(rig.told()) == [("recovered", "history", 1), ("storeLost", "service", 1)]


async def crash_everywhere(folder: Path, *, behind: bool) -> int:
    """Ends the process at each call of the table in turn; the number of the calls that there are."""
    for at in range(100):
        place = folder / f"{at}-{behind}"
        place.mkdir()
        async with at_a_desk(place, rule("finalFailed", "failing", failing=2)) as rig:
            if not await _dies(rig, at, behind=behind):
                return at
            rig.open()
            await rig.rounds(12)
            assert sorted(rig.told()) == [
                ("failing", "nightly", 1),
                ("finalFailed", "nightly", 2),
                ("finalFailed", "weekly", 1),
            ], (at, behind)
    raise AssertionError("it never came through")


async def _dies(rig: DeskRig, at: int, *, behind: bool) -> bool:
    cut = Cut(rig.table, at, behind=behind)
    rig.open(cut)
    await rig.end("nightly", 1)
    await rig.end("weekly", 1)
    rig.clock.advance(10)
    await rig.end("nightly", 2)
    try:
        await rig.rounds(2)
    except StoreUnavailable:
        return True
    return False


@pytest.mark.parametrize("behind", [False, True])
async def test_a_crash_anywhere_loses_and_doubles_nothing(tmp_path: Path, behind: bool) -> None:
    """Between the look, the mark, the message and its note: each is told and counted once, as by keys."""
    assert await crash_everywhere(tmp_path, behind=behind) > 8


async def test_a_node_that_does_not_lead_says_nothing(tmp_path: Path) -> None:
    """It notes what it sees itself; whoever leads next says that, and what failed meanwhile, once."""
    async with at_a_desk(tmp_path, rule("finalFailed", "storeLost")) as rig:
        rig.leads = False
        rig.happens("storeLost")
        await rig.end("nightly", 1)
        await rig.rounds(3)
        assert rig.told() == []
        rig.leads = True
        await rig.rounds(12)
        assert sorted(rig.told()) == [("finalFailed", "nightly", 1), ("storeLost", "service", 1)]


async def test_rounds_go_on_behind_trouble(tmp_path: Path) -> None:
    """A round that fails is counted, and the next one comes a second later."""
    async with at_a_desk(tmp_path, rule("finalFailed")) as rig:
        desk = rig.open(Cut(rig.table, 0, behind=False))
        desk.start()
        for _ in range(3):
            rig.clock.advance(1_000)
            while not desk.is_idle:
                await rig.table.marks()
        await desk.stop()
        assert rig.delayed
    # A desk that has stopped in the middle of a round plans no other one
    async with at_a_desk(tmp_path, rule("finalFailed")) as rig:
        rig.desk.start()
        rig.clock.advance(1_000)
        await asyncio.sleep(0)
        assert not rig.desk.is_idle
        await rig.desk.stop()
        assert rig.clock.next_call() is None


async def test_each_failure_is_counted_in_some_message(tmp_path: Path) -> None:
    """Of jobs that one message names together, of one moment, found out of order, and those of later."""
    async with at_a_desk(tmp_path, rule("finalFailed", interval=30_000)) as rig:
        for number in range(1, 11):
            for job in range(60):
                await rig.end(f"job-{job:02}", number)
        await rig.rounds(2)
        moment = rig.clock.now().wall
        for number, ended in ((11, moment), (12, moment), (14, moment - 10), (13, moment - 20)):
            await rig.end("job-59", number, ended_at=ended)
            await rig.rounds()
        await rig.end("job-00", 11)
        (many,) = (one for one in rig.sent.values() if one["kind"] == "many")
        assert (many["of"], many["count"], many["more"]) == ("finalFailed", 510, 41)
        assert many["text"].startswith("[ops] 510 executions failed (51 jobs): job-09, job-10, ")
        assert many["text"].endswith(", job-18 and 41 more.")
        assert sum(count for _, _, count in rig.told()) == 600
        await rig.rounds(60)
        assert sum(count for _, _, count in rig.told()) == 605
        assert len(rig.sent) == 12


async def test_a_message_about_many_names_each_kind(tmp_path: Path) -> None:
    """How many jobs still fail and how many do not, however few lines it reads; a job counts once."""
    async with at_a_desk(tmp_path, rule("failing", "finalFailed", failing=1)) as rig:
        for job in range(40):
            rig.jobs.put(f"job-{job:02}")
            await rig.end(f"job-{job:02}", 1)
        await rig.rounds()
        many = list(rig.sent.values())[-1]
        assert many["text"].endswith(" and 30 more.") or many["text"].endswith(" and 31 more.")
        assert (many["kind"], many["of"], many["count"]) == ("many", None, 71)
        assert len(rig.sent) == 10
        rig.clock.advance(120_000)
        for job in range(40):
            await rig.end(f"job-{job:02}", 2, state="succeeded")
        await rig.rounds(4)
        over = list(rig.sent.values())[-1]
        assert (over["kind"], over["of"], over["count"]) == ("many", "recovered", 31)
        assert over["text"].startswith("[ops] 31 jobs succeed again: job-")


async def test_any_number_of_firings_of_one_moment_is_overdue(tmp_path: Path) -> None:
    """More than a page of those that began late, and of jobs that did not begin."""
    async with at_a_desk(tmp_path, rule("overdue", overdue=5_000)) as rig:
        moment = rig.clock.now().wall
        for number in range(1_203):
            await rig.end("late", number, planned_at=moment, started_at=moment + 6_000)
            rig.jobs.put(f"job-{number:04}", next_fire=moment)
        await rig.rounds(7)
        assert sum(count for _, _, count in rig.told()) == 1_203 + 1_203
        assert [one["text"] for one in rig.sent.values()][-1].startswith("[ops] 1,")


async def test_a_job_that_its_failures_paused_is_told_until_it_is_resumed(tmp_path: Path) -> None:
    """With how many there were and the last one's error; also after a start, and not of pauses by people."""
    async with at_a_desk(tmp_path, rule("jobPaused")) as rig:
        rig.jobs.put("shop", state=JobState.PAUSED)
        rig.jobs.put("other", state=JobState.PAUSED)
        await rig.end("shop", 3, error="E42")
        await rig.keep("shop", Audited(act_of_system(OwnAct.PAUSE_OF_FAILURES, failures="3"), 200, 3, 1))
        await rig.end("other", 1, error="500")
        await rig.keep("other", Audited(Act("pauseJob", "ann"), 200, 1, 1))
        await rig.rounds(2)
        rig.open()
        await rig.rounds(15)
        assert rig.told() == [("jobPaused", "shop", 1)]
        (said,) = rig.sent.values()
        assert said["text"] == (
            "[ops] The job shop was paused: 3 failures in a row (E42); resume it when that is mended."
        )
        assert said["executionId"] == "u-shop-3"
        rig.jobs.put("shop")
        await rig.rounds(15)
        assert rig.told()[1:] == [("recovered", "shop", 1)]
    # Somebody was faster
    async with at_a_desk(tmp_path, rule("jobPaused")) as rig:
        rig.jobs.put("shop")
        await rig.end("shop", 3, error="E42")
        await rig.keep("shop", Audited(act_of_system(OwnAct.PAUSE_OF_FAILURES, failures="3"), 200, 3, 1))
        await rig.rounds(15)
        assert rig.told() == []
