"""Catalogue, history, state store and outbox for the tests of the API, all in dictionaries."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import msgspec

from scheduler_service.domain.audit_acts import AuditEntry
from scheduler_service.domain.document import Latest
from scheduler_service.domain.execution import PLANNED, DeliveryState, ExecutionState
from scheduler_service.domain.leases import QueueFigures, QueueQuery
from scheduler_service.domain.moments import DAY, Now, rfc3339
from scheduler_service.domain.records import (
    Audited,
    Exchange,
    ExecutionRecord,
    FiringRecord,
    Record,
    ResultKept,
    StepEnded,
)
from scheduler_service.persistence.common.pagination import CursorError, cut_page, read_position, value_of
from scheduler_service.persistence.history.answer_budget import AnswerBudget
from scheduler_service.persistence.history.day_statistics import DayQuery, Figures
from scheduler_service.persistence.history.full_executions import NewestExecutions
from scheduler_service.persistence.history.history_reads import FoundResult
from scheduler_service.persistence.history.queries import (
    DeliveryQuery,
    ExecutionQuery,
    FiringQuery,
    ListPage,
    PlannedExecution,
    SeriesQuery,
    Wire,
)
from scheduler_service.persistence.tables.audit_lines import audit, line_of, row_of, write_line
from scheduler_service.ports.audit import AuditQuery, AuditWire
from scheduler_service.ports.catalogue import (
    LAST_OUTCOMES,
    LONGEST_READ,
    CatalogueEntry,
    JobCounts,
    JobPage,
    JobQuery,
    JobTally,
    LastOutcome,
    Revision,
    tally_of,
)
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Remembered

START = 1_767_225_600_000  # 2026-01-01T00:00:00Z
_decode = msgspec.json.Decoder(Latest | None).decode


class MemoryStore:
    """Definitions, and the answers under Idempotency-Keys."""

    def __init__(self) -> None:
        self.texts: dict[tuple[str, int], bytes] = {}
        self.kept: dict[tuple[str, str], Remembered] = {}

    async def definition(self, uid: str, revision: int) -> bytes | None:
        return self.texts.get((uid, revision))

    async def recall(self, scope: str, key: str, since: int) -> Remembered | None:
        known = self.kept.get((scope, key))
        return known if known is not None and known.created_at >= since else None

    async def remember(self, remembered: Remembered) -> None:
        self.kept[remembered.scope, remembered.key] = remembered

    async def remember_first(self, remembered: Remembered, since: int) -> bool:
        if await self.recall(remembered.scope, remembered.key, since) is not None:
            return False
        await self.remember(remembered)
        return True


class MemoryCatalogue:
    """The catalogue: entries by job id."""

    def __init__(self, store: MemoryStore) -> None:
        self.entries: dict[str, CatalogueEntry] = {}
        self.store = store
        self.most_asked = 0

    async def get(self, job_id: str) -> CatalogueEntry | None:
        return self.entries.get(job_id)

    async def some(self, job_ids: Sequence[str]) -> Mapping[str, CatalogueEntry]:
        self.most_asked = max(self.most_asked, len(job_ids))
        return {job_id: self.entries[job_id] for job_id in job_ids if job_id in self.entries}

    async def find(self, uid: str) -> CatalogueEntry | None:
        return next((entry for entry in self.entries.values() if entry.uid == uid), None)

    async def list(self, query: JobQuery) -> JobPage:
        fitting = [entry for entry in self.entries.values() if _fits(entry, query)]
        fitting.sort(key=lambda entry: _place(entry, query), reverse=query.descending)
        last = read_position(query)
        if last is not None:
            places = [_place(entry, query) for entry in fitting]
            fitting = fitting[places.index((last.value is None, last.value, last.job_id)) + 1 :]
        return cut_page(query, fitting)

    async def tally(self, query: JobQuery) -> JobTally:
        fitting = [entry for entry in self.entries.values() if _fits(entry, query)]
        rows = [(entry.state, entry.kind, read_last_outcome(entry.latest), 1) for entry in fitting]
        return tally_of(rows, is_capped=False)

    async def definitions(self, job_ids: Sequence[str]) -> Mapping[str, bytes]:
        lives = [(job_id, self.entries[job_id]) for job_id in job_ids if job_id in self.entries]
        found = [(job_id, self.store.texts.get((entry.uid, entry.revision))) for job_id, entry in lives]
        return {job_id: text for job_id, text in found if text and len(text) <= LONGEST_READ}

    async def revisions(self, uid: str, *, after: int, limit: int) -> Sequence[Revision]:
        known = sorted(number for life, number in self.store.texts if life == uid and number > after)
        return [Revision(uid, "", number, START, self.store.texts[uid, number]) for number in known[:limit]]

    async def children(
        self, parent_job: str, parent_execution: int | None, *, after: str, limit: int
    ) -> Sequence[CatalogueEntry]:
        fitting = [
            entry
            for job_id, entry in sorted(self.entries.items())
            if entry.parent_job == parent_job
            and (parent_execution is None or entry.parent_execution == parent_execution)
            and job_id > after
        ]
        return fitting[:limit]

    async def upcoming(
        self, start: int, end: int, limit: int, *, with_labels: bool = True, **of: Any
    ) -> Sequence[CatalogueEntry]:
        query = JobQuery(**of)
        fitting = [
            entry
            for entry in self.entries.values()
            if entry.next_fire is not None and start <= entry.next_fire <= end and _fits(entry, query)
        ]
        return sorted(fitting, key=lambda entry: (entry.next_fire, entry.job_id))[:limit]

    async def counts(self, now: Now, *, tenant: str | None) -> JobCounts:
        states = [entry.state for entry in self.entries.values()]
        return JobCounts(0, 0, 0, {state: states.count(state) for state in set(states)})


class MemoryAudit:
    """The lines of the audit by their ids. `fault` is raised by every write while it is set."""

    def __init__(self) -> None:
        self.lines: dict[str, dict[str, Any]] = {}
        self.fault: StoreError | None = None

    def take(self, batch: Batch) -> None:
        """Keeps what a turn says."""
        self._keep([line_of(batch, one) for one in batch.records if isinstance(one, Audited)])

    async def put(self, entry: AuditEntry) -> None:
        if self.fault is not None:
            raise self.fault
        self._keep([row_of(entry)])

    async def drop(self, entry_id: str) -> None:
        if self.fault is not None:
            raise self.fault
        del self.lines[entry_id]

    async def page(self, query: AuditQuery) -> tuple[list[AuditWire], str | None]:
        wanted = {
            "tenant": query.tenant,
            "who": query.who,
            "operation": query.operation,
            "key_id": query.key_id,
            "job_id": query.job_id,
            "service": query.service,
        }
        fitting = [
            row
            for row in reversed(self.lines.values())
            if all(value is None or row[name] == value for name, value in wanted.items())
        ]
        return [write_line(SimpleNamespace(**row)) for row in fitting[: query.limit]], None

    async def of_execution(self, tenant: str, uid: str, execute_number: int) -> list[AuditWire]:
        return [
            {"operation": row["operation"], "who": row["who"], "keyId": row["key_id"] or None,
             "via": row["via"], "at": rfc3339(row["at"])}
            for row in self.lines.values()
            if (row["tenant"], row["uid"], row["execute_number"]) == (tenant, uid, execute_number)
        ]  # fmt: skip

    def _keep(self, rows: Iterable[Sequence[Any]]) -> None:
        names = [column.name for column in audit.c]
        for row in rows:
            self.lines[row[0]] = dict(zip(names, row, strict=True))


class MemoryHistory:
    """The history: the latest record of each execution, and what its steps sent."""

    def __init__(self) -> None:
        self.runs: dict[tuple[str, int], tuple[str, ExecutionRecord]] = {}
        self.steps: dict[tuple[str, int], dict[int, Exchange]] = {}
        self.ledger: dict[str, list[FiringRecord]] = {}
        self.results: dict[tuple[str, int], ResultKept] = {}
        self.has_dropped = False
        self.asked: SeriesQuery | None = None
        self.children_at_once = 500

    def append(self, uid: str, job_id: str, records: Iterable[Record]) -> None:
        for record in records:
            match record:
                case ExecutionRecord(execute_number=number):
                    self.runs[uid, number] = (job_id, record)
                case StepEnded(execute_number=number, index=index, exchange=exchange):
                    self.steps.setdefault((uid, number), {})[index] = exchange
                case ResultKept(execute_number=number):
                    self.results[uid, number] = record
                case FiringRecord():
                    self.ledger.setdefault(uid, []).append(record)

    async def result(self, tenant: str, execution_id: str) -> FoundResult | None:
        uid, _, number = execution_id.rpartition("-")
        found = self.runs.get((uid, int(number))) if number.isdigit() else None
        if found is None:
            return None
        kept = self.results.get((uid, int(number)))
        return FoundResult(found[1].state, found[1].error, None, self.has_dropped, kept)

    async def executions(self, query: ExecutionQuery) -> ListPage:
        if query.cursor is not None:
            raise CursorError(f"{query.cursor!r} is not a cursor of this list")
        items = [_run(uid, job_id, record) for (uid, _), (job_id, record) in self.runs.items()]
        items = [item for item in items if query.job_id in (None, item["jobId"])]
        items = [item for item in items if query.execute_number in (None, item["executeNumber"])]
        items = [item for item in items if item["executionId"].startswith(query.uid or "")]
        items = [item for item in items if query.state in (None, item["state"])]
        items = [item for item in items if query.job_ids is None or item["jobId"] in query.job_ids]
        return ListPage(items[::-1][: query.limit])

    async def planned(self, tenant: str, job_id: str, first: int, last: int) -> list[PlannedExecution]:
        return [
            PlannedExecution(record.planned_at, record.state, uid, number)
            for (uid, number), (name, record) in self.runs.items()
            if name == job_id and record.triggered_by in PLANNED and first <= record.planned_at <= last
        ]

    async def life_of(self, tenant: str, job_id: str, number: int) -> str | None:
        found = [uid for (uid, one), (name, _) in self.runs.items() if (name, one) == (job_id, number)]
        return found[-1] if found else None

    async def planned_runs(self, uid: str, first: int, last: int, most: int) -> list[tuple[int, int, Any]]:
        known = [(one.planned_at, one.until or one.planned_at, one.count) for one in self.ledger.get(uid, [])]
        return sorted(one for one in known if one[0] <= last and one[1] >= first)[:most]

    async def firings(self, query: FiringQuery) -> ListPage:
        return ListPage(
            [
                {"plannedAt": rfc3339(one.planned_at), "outcome": one.outcome}
                for one in self.ledger.get(query.uid, [])
            ]
        )

    async def deliveries(self, query: DeliveryQuery) -> ListPage:
        return ListPage([])

    async def delivery(self, tenant: str, delivery_id: str) -> Wire | None:
        state = {"done": "delivered", "left": "pending", "spent": "failed"}.get(delivery_id)
        return None if state is None else {"deliveryId": delivery_id, "state": state}

    async def execution(
        self, tenant: str, execution_id: str, request_counts: int | None = None
    ) -> Wire | None:
        uid, _, number = execution_id.rpartition("-")
        found = self.runs.get((uid, int(number))) if number.isdigit() else None
        if found is None:
            return None
        params, is_complete = found[1].params, found[1].params_complete
        return {
            **_run(uid, *found),
            "params": None if params is None else json.loads(params),
            "paramsComplete": is_complete,
            "attempts": [
                {"requestCounts": counts, "endedAt": None} for counts in (1, 2) if request_counts == counts
            ],
            "notifications": [],
        }

    async def log(
        self, tenant: str, execution_id: str, *, limit: int = 50, cursor: str | None = None
    ) -> ListPage | None:
        return None if await self.execution(tenant, execution_id) is None else ListPage([])

    async def exchanges(self, tenant: str, execution_id: str) -> dict[int, Exchange] | None:
        uid, _, number = execution_id.rpartition("-")
        return self.steps.get((uid, int(number)))

    async def params(self, tenant: str, execution_id: str) -> bytes | None:
        uid, _, number = execution_id.rpartition("-")
        record = self.runs[uid, int(number)][1]
        return record.params if record.params_complete else None

    async def children_latest(
        self, tenant: str, job_ids: Sequence[str], *, room: AnswerBudget, limit: int
    ) -> NewestExecutions:
        latest = {job_id: _run(uid, job_id, record) for (uid, _), (job_id, record) in self.runs.items()}
        items: list[Wire] = []
        for count, job_id in enumerate(job_ids):
            if job_id in latest and len(items) == min(limit, self.children_at_once):
                return NewestExecutions(items, count)
            items += [latest[job_id]] if job_id in latest else []
        return NewestExecutions(items, len(job_ids))

    async def outcomes(self, tenant: str, job_ids: Collection[str], count: int) -> Mapping[str, list[Wire]]:
        runs: dict[str, list[Wire]] = {job_id: [] for job_id in job_ids}
        for (uid, _), (job_id, record) in self.runs.items():
            if job_id in runs:
                runs[job_id].append(_run(uid, job_id, record))
        return {job_id: found[-count:] for job_id, found in runs.items()}

    async def counts(self, query: ExecutionQuery) -> Wire:
        items = (await self.executions(query)).items
        states = {str(state): [item["state"] for item in items].count(state) for state in ExecutionState}
        return {"total": {"value": len(items), "isCapped": False}, "byState": states, "byError": []}

    async def delivery_counts(self, query: DeliveryQuery) -> Wire:
        items = (await self.deliveries(query)).items
        states = {str(state): [item["state"] for item in items].count(state) for state in DeliveryState}
        return {"total": {"value": len(items), "isCapped": False}, "byState": states}

    async def series(self, query: SeriesQuery) -> Wire:
        self.asked = query
        return {"isCapped": False, "examinedFrom": None, "buckets": []}

    async def statistics(self, tenant: str, now: int) -> Wire:
        return {"byState": {}, "lateness": {"p50": None, "p99": None, "max": None}, "perMinute": []}

    async def days(self, query: DayQuery) -> Wire:
        total = Figures()
        for job_id, run in self.runs.values():
            is_wanted = query.job_ids is None or job_id in query.job_ids
            if is_wanted and run.ended_at and query.first <= run.planned_at // DAY <= query.last:
                total.add(Figures(states={run.state.value: 1}))
        return {"total": total.wire(), "days": []}

    async def top(self, query: DayQuery) -> Wire:
        return {"failing": [], "slowest": []}


class EmptyQueues:
    """Pull queues in which nothing waits."""

    async def figures(self, query: QueueQuery) -> list[QueueFigures]:
        return []


class MemoryOutbox:
    """The outbox: one delivery is pending, `waiting`."""

    async def resend(self, delivery_id: str) -> bool:
        return delivery_id == "waiting"

    async def dismiss(self, delivery_id: str) -> bool:
        return delivery_id == "waiting"


def _run(uid: str, job_id: str, record: ExecutionRecord) -> Wire:
    return {
        "executionId": f"{uid}-{record.execute_number}",
        "jobId": job_id,
        "executeNumber": record.execute_number,
        "state": record.state.value,
        "endedAt": record.ended_at,
    }


def _fits(entry: CatalogueEntry, query: JobQuery) -> bool:
    return (
        entry.state in query.states
        and query.kind in (None, entry.kind)
        and query.last_outcome in (None, read_last_outcome(entry.latest))
        and query.creator in (None, entry.creator)
        and query.object_id in (None, entry.object_id)
        and all(entry.labels.get(key) == value for key, value in query.labels)
        and (query.text is None or query.text in entry.job_id or query.text in entry.job_name)
        and query.system in (None, entry.system)
    )


def _place(entry: CatalogueEntry, query: JobQuery) -> tuple[bool, Any, str]:
    value = value_of(entry, query.sort)
    return value is None, value, entry.job_id


def read_last_outcome(latest: bytes) -> LastOutcome:
    """What the newest execution of a job came to; NONE also for bytes that nothing can be read from."""
    try:
        found = _decode(latest)
    except msgspec.MsgspecError:
        return LastOutcome.NONE
    return LastOutcome.NONE if found is None else LAST_OUTCOMES[found.state]
