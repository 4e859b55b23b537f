"""The rounds of a desk: what happens to the service, what is noted and said over a crash, who leads."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler_service.domain.audit_acts import Act, OwnAct, act_of_system
from scheduler_service.domain.execution import ExecutionState, JobState, TriggeredBy
from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.domain.records import Audited, ExecutionRecord
from scheduler_service.persistence.history.alerts import SqlAlertTable
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.history.writer import HistoryWriter
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.history import Batch
from scheduler_service.telemetry.alerts.alert_loop import AlertLoop, AlertLoopParts
from scheduler_service.telemetry.alerts.alert_messages import AlertMessages
from scheduler_service.telemetry.alerts.alert_rules import AlertRule
from scheduler_service.telemetry.alerts.failure_watch import FailureWatch
from scheduler_service.telemetry.alerts.overdue_watch import LatenessWatch, RecoveryWatch
from scheduler_service.telemetry.log_summaries import Tally
from tests.manual_clock import ManualClock

START = 1_790_000_000_000
OWN = frozenset({"alert.ops"})


def rule(*kinds: str, **members: Any) -> AlertRule:
    """The alert `ops` for these kinds, its messages not held back."""
    return AlertRule(name="ops", kinds=frozenset(map(OccurrenceKind, kinds)), **{"interval": 0, **members})


class Jobs:
    """The catalogue, of which alerts read two lists."""

    def __init__(self) -> None:
        self.entries: dict[str, CatalogueEntry] = {}

    def put(self, job_id: str, **members: Any) -> None:
        """A job with these members of its entry."""
        values: dict[str, Any] = dict.fromkeys(CatalogueEntry.__struct_fields__[:19], 0)
        names = {"job_id": job_id, "uid": f"u-{job_id}", "tenant": "default", "state": JobState.ACTIVE}
        base = {**names, "labels": {}, "next_fire": None, "latest": b""}
        self.entries[job_id] = CatalogueEntry(**{**values, **base, **members})

    async def some(self, job_ids: Sequence[str]) -> Mapping[str, CatalogueEntry]:
        """Of these, those that exist."""
        return {job_id: self.entries[job_id] for job_id in job_ids if job_id in self.entries}

    async def upcoming(self, start: int, end: int, limit: int, *, tenant: None) -> Sequence[CatalogueEntry]:
        """Those that fire next in `start` to `end`."""
        fire = [one for one in self.entries.values() if one.next_fire is not None]
        found = [one for one in fire if start <= (one.next_fire or 0) <= end]
        return sorted(found, key=lambda one: (one.next_fire, one.job_id))[:limit]


class Cut:
    """A table at which the process ends: at its call number `at`, before it is carried out or behind it."""

    def __init__(self, table: SqlAlertTable, at: int, *, behind: bool) -> None:
        self._table = table
        self._left = at
        self._behind = behind

    @property
    def is_over(self) -> bool:
        """Whether the process has ended."""
        return self._left < 0

    def mend(self) -> None:
        """It was trouble only, and is over."""
        self._left = 1_000_000

    def __getattr__(self, name: str) -> Any:
        return partial(self._call, getattr(self._table, name))

    async def _call(self, call: Any, *arguments: Any, **options: Any) -> Any:
        self._left -= 1
        if self._left == -1 and self._behind:
            await call(*arguments, **options)
        if self.is_over:
            raise StoreUnavailable("the process ends here")
        return await call(*arguments, **options)


class DeskRig:
    """What outlives a process: the history, the jobs, the mailbox; `open` begins the next process."""

    def __init__(self, folder: Path, *rules: AlertRule) -> None:
        self.rules = rules
        self.database = HistoryDatabase(url=f"sqlite:///{folder}/history.db", durability="process")
        self.table = SqlAlertTable(database=self.database)
        self.clock = ManualClock(wall=START)
        self.jobs = Jobs()
        self.online: set[str] = set()
        self.nodes: dict[str, bool] = {}
        self.leads = True
        self.sent: dict[str, dict[str, Any]] = {}
        self.delayed: list[dict[str, object]] = []
        self._writer = HistoryWriter(
            database=self.database, on_written=lambda keys: None, on_trouble=lambda text: None
        )
        self._written = 0
        self.desk = self.open()

    def open(self, table: Any = None) -> AlertLoop:
        """The desk of a new process, over `table` in place of its own."""
        at: Any = table or self.table
        common: Any = {"rules": self.rules, "table": at, "clock": self.clock, "catalogue": self.jobs}

        async def leads() -> bool:
            return self.leads

        async def nodes() -> Mapping[str, bool]:
            return self.nodes

        self.desk = AlertLoop(
            AlertLoopParts(
                rules=self.rules,
                table=at,
                clock=self.clock,
                failure_watch=FailureWatch(**common, own=OWN),
                lateness=LatenessWatch(**common),
                recovery=RecoveryWatch(
                    **common, is_online=lambda service, one: f"{service}/{one}" in self.online, nodes=nodes
                ),
                messages=AlertMessages(table=at, clock=self.clock, send=self._send),
                delayed=Tally("alerts_delayed", log=lambda event, /, **keys: self.delayed.append(keys)),
                leads=leads,
            )
        )
        return self.desk

    async def rounds(self, number: int = 1) -> None:
        """So many rounds, a second apart."""
        for _ in range(number):
            self.clock.advance(1_000)
            await self.desk.round()

    async def end(self, job_id: str, number: int, state: str = "terminated", **members: Any) -> None:
        """An execution that ended now, or at `ended_at`, reaches the history."""
        now = self.clock.now().wall
        values = {"planned_at": now, "created_at": now + number, "ended_at": now, **members}
        record = ExecutionRecord(
            execute_number=number,
            state=ExecutionState(state),
            revision=1,
            triggered_by=TriggeredBy.TIMER,
            **values,
        )
        await self.keep(job_id, record)

    async def keep(self, job_id: str, *records: Any) -> None:
        """The records of one turn of this job reach the history."""
        self._written += 1
        life = {"uid": f"u-{job_id}", "job_id": job_id, "tenant": "default"}
        at = self.clock.now().wall
        batch = Batch(sequence=self._written, at=at, records=records, **life)
        self._writer.append(batch, durable=False)
        await self._writer.flush()

    def told(self) -> list[tuple[str, str, int]]:
        """Of each message the kind, the subject and the number, in the order of the first sending."""
        return [(one["kind"], one["subject"], one["count"]) for one in self.sent.values()]

    def happens(self, kind: str, subject: str | None = None) -> None:
        """Something happens to the service."""
        at = self.clock.now().wall
        self.desk.take(Occurrence(kind=OccurrenceKind(kind), at=at, subject=subject))

    async def close(self) -> None:
        """Closes what is open."""
        await self._writer.close()
        await self.table.close()
        self.database.close()

    async def _send(self, name: str, key: str, body: bytes) -> bool:
        """As the job of the alert: once under a key."""
        self.sent.setdefault(key, msgspec.json.decode(body))
        return True


@asynccontextmanager
async def at_a_desk(folder: Path, *rules: AlertRule) -> AsyncIterator[DeskRig]:
    """A rig whose desk has begun, so that what happens from now on counts."""
    rig = DeskRig(folder, *rules)
    try:
        await rig.rounds()
        yield rig
    finally:
        await rig.close()


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
