"""A whole scheduler in memory behind the API: the real machine, dictionaries for files, and a clock."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import httpx
import msgspec

from scheduler_service.api.application import create_api
from scheduler_service.api.parts import ApiParts
from scheduler_service.domain.document import Document
from scheduler_service.domain.effects import Call, Effect
from scheduler_service.domain.errors import ExpressionError
from scheduler_service.domain.events import CallEnded, Created, Event, Updated
from scheduler_service.domain.moments import Now, rfc3339
from scheduler_service.domain.records import Exchange, ExecutionRecord, FiringRecord, Record, StepEnded
from scheduler_service.domain.replies import Recalled, Refusal, Reply
from scheduler_service.domain.wire import Answer, Holder
from scheduler_service.engine.compile import compile_definition
from scheduler_service.engine.decision import Job
from scheduler_service.engine.machine import decide
from scheduler_service.engine.program import Program, Surroundings
from scheduler_service.engine.status import summarize
from scheduler_service.hosts.catalogue import bury, describe
from scheduler_service.persistence.history.queries import (
    DeliveryQuery,
    ExecutionQuery,
    FiringQuery,
    Page,
    Wire,
)
from scheduler_service.persistence.state.catalogue import JobCounts, JobPage, JobQuery, Revision
from scheduler_service.persistence.state.errors import CursorError
from scheduler_service.ports import CatalogueEntry, Definition, Remembered, StoreError

START = 1_767_225_600_000  # 2026-01-01T00:00:00Z
KEY = b"k" * 32


class Store:
    """Definitions and answers under keys."""

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


class Shelf:
    """The catalogue: entries by id, in insertion order of none."""

    def __init__(self, store: Store) -> None:
        self.entries: dict[str, CatalogueEntry] = {}
        self.store = store

    async def get(self, job_id: str) -> CatalogueEntry | None:
        return self.entries.get(job_id)

    async def find(self, uid: str) -> CatalogueEntry | None:
        return next((entry for entry in self.entries.values() if entry.uid == uid), None)

    async def list(self, query: JobQuery) -> JobPage:
        after = "" if query.cursor is None else _offset(query.cursor)
        fitting = [self.entries[job_id] for job_id in sorted(self.entries) if job_id > after]
        fitting = [entry for entry in fitting if _fits(entry, query)]
        more = f"after:{fitting[query.limit - 1].job_id}" if len(fitting) > query.limit else None
        return JobPage(tuple(fitting[: query.limit]), more)

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
        self, start: int, end: int, limit: int, *, tenant: str | None
    ) -> Sequence[CatalogueEntry]:
        fitting = [
            entry
            for entry in self.entries.values()
            if entry.next_fire is not None and start <= entry.next_fire <= end
        ]
        return sorted(fitting, key=lambda entry: (entry.next_fire, entry.job_id))[:limit]

    async def counts(self, now: Now, *, tenant: str | None) -> JobCounts:
        states = [entry.state for entry in self.entries.values()]
        return JobCounts(0, 0, 0, {state: states.count(state) for state in set(states)})


class Past:
    """The history: the latest record of each execution, and what its steps sent."""

    def __init__(self) -> None:
        self.runs: dict[tuple[str, int], tuple[str, ExecutionRecord]] = {}
        self.steps: dict[tuple[str, int], dict[int, Exchange]] = {}
        self.ledger: dict[str, list[FiringRecord]] = {}

    def append(self, uid: str, job_id: str, records: Iterable[Record]) -> None:
        for record in records:
            match record:
                case ExecutionRecord(execute_number=number):
                    self.runs[uid, number] = (job_id, record)
                case StepEnded(execute_number=number, index=index, exchange=exchange):
                    self.steps.setdefault((uid, number), {})[index] = exchange
                case FiringRecord():
                    self.ledger.setdefault(uid, []).append(record)

    async def executions(self, query: ExecutionQuery) -> Page:
        if query.cursor is not None:
            raise ExpressionError(f"{query.cursor!r} is no cursor of this list", code="cursor")
        items = [_run(uid, job_id, record) for (uid, _), (job_id, record) in self.runs.items()]
        items = [item for item in items if query.job_id in (None, item["jobId"])]
        items = [item for item in items if query.state in (None, item["state"])]
        items = [item for item in items if query.job_ids is None or item["jobId"] in query.job_ids]
        return Page(items[::-1][: query.limit])

    async def firings(self, query: FiringQuery) -> Page:
        return Page(
            [
                {"plannedAt": rfc3339(one.planned_at), "outcome": one.outcome}
                for one in self.ledger.get(query.uid, [])
            ]
        )

    async def deliveries(self, query: DeliveryQuery) -> Page:
        return Page([])

    async def delivery(self, tenant: str, delivery_id: str) -> Wire | None:
        return {"deliveryId": delivery_id, "state": "delivered"} if delivery_id == "done" else None

    async def execution(self, tenant: str, execution_id: str) -> Wire | None:
        uid, _, number = execution_id.rpartition("-")
        found = self.runs.get((uid, int(number))) if number.isdigit() else None
        return None if found is None else {**_run(uid, *found), "attempts": [], "notifications": []}

    async def log(
        self, tenant: str, execution_id: str, *, limit: int = 50, cursor: str | None = None
    ) -> Page | None:
        return None if await self.execution(tenant, execution_id) is None else Page([])

    async def exchanges(self, tenant: str, execution_id: str) -> dict[int, Exchange] | None:
        uid, _, number = execution_id.rpartition("-")
        return self.steps.get((uid, int(number)))

    async def children_latest(self, tenant: str, job_ids: Iterable[str]) -> list[Wire]:
        wanted = set(job_ids)
        latest = {job_id: _run(uid, job_id, record) for (uid, _), (job_id, record) in self.runs.items()}
        return [latest[job_id] for job_id in sorted(wanted & latest.keys())]

    async def statistics(self, tenant: str, now: int) -> Wire:
        return {"byState": {}, "lateness": {"p50": None, "p99": None, "max": None}, "perMinute": []}


class Post:
    """The courier: knows one delivery that waits."""

    async def resend(self, delivery_id: str) -> bool:
        return delivery_id == "waiting"

    async def dismiss(self, delivery_id: str) -> bool:
        return delivery_id == "waiting"


class World:
    """Everything behind the API, and the client before it. `fault` is raised by the next turn."""

    def __init__(self, **settings: Any) -> None:
        self.wall = START
        self.store = Store()
        self.shelf = Shelf(self.store)
        self.past = Past()
        self.documents: dict[str, tuple[Document, dict[int, Program]]] = {}
        self.effects: list[Effect] = []
        self.fault: StoreError | None = None
        self.missing: tuple[str, ...] = ()
        self.turns = 0
        self.cleaned: list[tuple[bool, int]] = []
        self.api = create_api(self._parts(settings))

    def now(self) -> Now:
        return Now(self.wall, self.wall)

    def client(self, address: str = "127.0.0.1", **options: Any) -> httpx.AsyncClient:
        """A caller from `address`."""
        transport = httpx.ASGITransport(self.api, client=(address, 1234))
        return httpx.AsyncClient(transport=transport, **{"base_url": "http://127.0.0.1:8000", **options})

    async def deliver(
        self,
        job_id: str,
        event: Event,
        *,
        definition: Definition | None = None,
        remembered: Remembered | None = None,
        answer: Callable[[Reply], bytes] | None = None,
    ) -> Reply:
        """One turn, as `ports.Deliver` has it."""
        if self.fault is not None:
            raise self.fault
        if remembered is not None:
            known = self.store.kept.get((remembered.scope, remembered.key))
            if known is not None:
                return Recalled(known.answer, known.digest == remembered.digest)
        reply = self._turn(job_id, event, definition)
        if remembered is not None and answer is not None and not isinstance(reply, Refusal):
            await self.store.remember(msgspec.structs.replace(remembered, answer=answer(reply)))
        return reply

    async def read_job(self, job_id: str) -> Job | None:
        held = self.documents.get(job_id)
        return None if held is None else Job(*held, Holder("node", "boot"))

    async def answer_calls(self, status: int = 200, body: bytes = b'{"rows": 7}') -> None:
        """Answers every request that is in flight, and those that follow from it."""
        while calls := [effect for effect in self.effects if isinstance(effect, Call)]:
            self.effects = [effect for effect in self.effects if not isinstance(effect, Call)]
            for call in calls:
                entry = await self.shelf.find(call.token.uid)
                assert entry is not None
                await self.deliver(entry.job_id, CallEnded(call.token, Answer(status, body=body)))

    def _turn(self, job_id: str, event: Event, definition: Definition | None) -> Reply:
        self.turns += 1
        document, programs = self.documents.get(job_id, (None, {}))
        event, programs = self._bind(job_id, document, event, dict(programs), definition)
        decision = decide(Job(document, programs, Holder("node", "boot")), event, self.now())
        self.effects.extend(decision.effects)
        after = decision.document
        if after is not None:
            self._keep(job_id, after, programs, definition)
        elif document is not None:
            self.shelf.entries[job_id] = bury(self.shelf.entries[job_id], document, self.now())
            del self.documents[job_id]
        entry = self.shelf.entries.get(job_id)
        if entry is not None:
            self.past.append(entry.uid, job_id, decision.records)
        return decision.reply

    def _bind(
        self,
        job_id: str,
        document: Document | None,
        event: Event,
        programs: dict[int, Program],
        definition: Definition | None,
    ) -> tuple[Event, dict[int, Program]]:
        if definition is None:
            return event, programs
        if isinstance(event, Created) and document is None:
            earlier = self.shelf.entries.get(job_id)
            count = 0 if earlier is None else earlier.execute_number
            uid = f"life{self.turns}"
            return Created(uid, KEY, 1, count), {1: definition.program}
        if isinstance(event, Created):
            return msgspec.structs.replace(event, fingerprint=definition.program.fingerprint), programs
        if isinstance(event, Updated) and document is not None:
            revision = document.head.revision + 1
            return msgspec.structs.replace(event, revision=revision), programs | {
                revision: definition.program
            }
        return event, programs

    def _keep(
        self, job_id: str, after: Document, programs: dict[int, Program], definition: Definition | None
    ) -> None:
        program = programs[after.head.revision]
        job = Job(after, programs, Holder("node", "boot"))
        self.documents[job_id] = (after, programs)
        self.shelf.entries[job_id] = describe(job_id, after, program, summarize(job))
        if definition is not None and program is definition.program:
            self.store.texts[after.head.uid, after.head.revision] = definition.text

    def _parts(self, settings: Mapping[str, Any]) -> ApiParts:
        async def ready() -> tuple[str, ...]:
            return self.missing

        async def flush() -> None:
            return

        async def clean(*, destroyed: bool, retain: int) -> Mapping[str, int]:
            self.cleaned.append((destroyed, retain))
            return {"jobs": 1, "executions": 2, "notifications": 3}

        return ApiParts(
            **{
                "deliver": self.deliver,
                "read_job": self.read_job,
                "compile_definition": compile_definition,
                "surroundings": Surroundings(),
                "catalogue": self.shelf,
                "store": self.store,
                "history": self.past,
                "courier": Post(),
                "clean": clean,
                "clock": self,
                "flush": flush,
                "ready": ready,
                "version": "1.2.3",
                **settings,
            }
        )


def definition(**members: Any) -> dict[str, Any]:
    """A small definition that fires from outside only; `members` win."""
    base: dict[str, Any] = {
        "jobName": "a job",
        "creator": "1",
        "creatorName": "one",
        "timer": {"dueTime": "0s", "period": "external"},
        "request": [{"url": "http://target.test/run"}],
    }
    return base | members


def pointers(response: httpx.Response) -> list[tuple[str, str]]:
    """Where and what of a problem's errors, its form checked."""
    assert response.headers["content-type"] == "application/problem+json"
    body = json.loads(response.content)
    assert body["status"] == body["resp_code"] == response.status_code
    assert body["resp_msg"] == body["detail"]
    assert {"type", "title", "errors"} <= body.keys()
    return [(error["pointer"], error["code"]) for error in body["errors"]]


def _run(uid: str, job_id: str, record: ExecutionRecord) -> Wire:
    return {
        "executionId": f"{uid}-{record.execute_number}",
        "jobId": job_id,
        "executeNumber": record.execute_number,
        "state": record.state.value,
    }


def _fits(entry: CatalogueEntry, query: JobQuery) -> bool:
    return (
        entry.state in query.states
        and query.kind in (None, entry.kind)
        and query.creator in (None, entry.creator)
        and query.object_id in (None, entry.object_id)
        and all(entry.labels.get(key) == value for key, value in query.labels)
        and (query.text is None or query.text in entry.job_id or query.text in entry.job_name)
        and query.system in (None, entry.system)
    )


def _offset(cursor: str) -> str:
    if not cursor.startswith("after:"):
        raise CursorError(f"{cursor!r} was not given out by this list")
    return cursor.removeprefix("after:")
