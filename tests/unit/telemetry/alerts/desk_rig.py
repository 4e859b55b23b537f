"""A desk over a real history in a file, its clock, jobs and mailbox in the hand of a test."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from scheduler_service.domain.execution import ExecutionState, JobState, TriggeredBy
from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.domain.records import ExecutionRecord
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
