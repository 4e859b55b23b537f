"""A whole scheduler in memory behind the API: the real state machine, and a clock that tests set."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import httpx
import msgspec

from client_sdk.models import JobDefinition, parse_definition
from scheduler_service.api.application import create_api
from scheduler_service.api.authentication import Authentication
from scheduler_service.api.dependencies import (
    ApiDependencies,
    DefinitionParts,
    RequestLimits,
    SecurityParts,
    ServiceParts,
    ShownParts,
    UpkeepParts,
)
from scheduler_service.domain.audit_acts import Act
from scheduler_service.domain.document import Document
from scheduler_service.domain.effects import Call, Effect
from scheduler_service.domain.moments import Now
from scheduler_service.domain.replies import Recalled, Refusal, Reply
from scheduler_service.domain.turn_events import CallEnded, Created, Event, Updated
from scheduler_service.domain.wire import Answer, Holder
from scheduler_service.engine.compile import Compiled, compile_definition, compile_stored
from scheduler_service.engine.compile_cache import CompileCache
from scheduler_service.engine.decide import decide
from scheduler_service.engine.decision import Job
from scheduler_service.engine.job_summary import summarize
from scheduler_service.engine.program import Program, Surroundings
from scheduler_service.hosts.cleanup import Trials
from scheduler_service.hosts.commit_builder import bury, describe, note_act
from scheduler_service.hosts.operations.operations import Operations
from scheduler_service.hosts.work_thread import work_apart
from scheduler_service.ports.alerts import AlertLine
from scheduler_service.ports.delivery import Command, Definition
from scheduler_service.ports.errors import StoreError, StoreUnavailable
from scheduler_service.ports.history import Batch
from scheduler_service.security.history_masking import MASKED_HEADERS
from scheduler_service.security.key_ring import KeyRing
from scheduler_service.security.name_masks import Concealment, DefinitionMasking
from scheduler_service.services.drift_report import DriftReport
from scheduler_service.services.instances import Instances
from scheduler_service.services.pull_queues import PullQueues
from scheduler_service.services.reconcile import Reconcile, ReconcileInputs
from scheduler_service.services.registry import Registry
from scheduler_service.services.shared_calendars import Calendars
from scheduler_service.telemetry.readiness import Standstills
from tests.unit.api.stores import (
    START,
    EmptyQueues,
    MemoryAudit,
    MemoryCatalogue,
    MemoryHistory,
    MemoryOutbox,
    MemoryStore,
)
from tests.unit.security.memory_keys import MemoryKeys
from tests.unit.services.memory_calendars import MemoryCalendars
from tests.unit.services.tables import MemoryTable

KEY = b"k" * 32


def judge_secret(tenant: str, name: str) -> str | None:
    """Why a secret cannot sign: `hooks` of the tenant `default` alone can."""
    return None if (tenant, name) == ("default", "hooks") else f"there is no {name!r}"


class World(MemoryOutbox):
    """The API with everything that it uses, and all jobs (`hosts.processes.shards.Shard`).

    `fault` is raised by every turn while it is set. `faults` are raised by the next turns, one each.
    """

    def __init__(self, **settings: Any) -> None:
        self.wall = START
        self.store = MemoryStore()
        self.catalogue = MemoryCatalogue(self.store)
        self.history = MemoryHistory()
        self.audit = MemoryAudit()
        self.documents: dict[str, tuple[Document, dict[int, Program]]] = {}
        self.effects: list[Effect] = []
        self.fault: StoreError | None = None
        self.faults: list[StoreError] = []
        self.missing: tuple[str, ...] = ()
        self.parts: tuple[Mapping[str, object], ...] = ()
        self.standstills = Standstills()
        self.turns = 0
        self.was_read = asyncio.Event()
        self.flushes = 0
        self.is_history_stuck = False
        self.is_history_locked = False
        self.cleaned: list[tuple[bool, int]] = []
        self.logged: list[tuple[str, dict[str, object]]] = []
        self.table = MemoryTable()
        self.registry = Registry(table=self.table, instances=Instances(), clock=self)
        self.inputs = ReconcileInputs(
            registry=self.registry,
            apart=work_apart,
            table=self.table,
            entries=self.catalogue.some,
            definition=self.store.definition,
            read_job=self.read,
            compile_text=PlainCompiler(settings.get("surroundings", Surroundings())).stored,
            clock=self,
        )
        self.scan = Reconcile(
            registry=self.registry, table=self.table, inputs=self.inputs, deliver=self.deliver, clock=self
        )
        self.deps = self._make_deps(settings)
        self.api = create_api(self.deps)

    def now(self) -> Now:
        return Now(self.wall, self.wall)

    def make_operations(self) -> Operations:
        """Those of this process."""
        return Operations(store=self.store, clock=self, holder=Holder("node", "boot"), log=self.log)

    def log(self, event: str, /, **keys: object) -> None:
        """Keeps what is logged."""
        self.logged.append((event, keys))

    def client(self, address: str = "127.0.0.1", **options: Any) -> httpx.AsyncClient:
        """A client with the address `address`."""
        transport = httpx.ASGITransport(self.api, client=(address, 1234))
        return httpx.AsyncClient(transport=transport, **{"base_url": "http://127.0.0.1:8000", **options})

    async def deliver(self, job_id: str, command: Command) -> Reply:
        """One turn, as `ports.Deliver` has it."""
        if self.faults:
            raise self.faults.pop(0)
        if self.fault is not None:
            raise self.fault
        remembered, answer = command.remembered, command.answer
        if remembered is not None:
            known = self.store.kept.get((remembered.scope, remembered.key))
            if known is not None:
                return Recalled(known.answer, known.digest == remembered.digest)
        reply = self._turn(job_id, command.event, command.definition, command.act)
        if remembered is not None and answer is not None and not isinstance(reply, Refusal):
            await self.store.remember(msgspec.structs.replace(remembered, answer=answer(reply)))
        return reply

    async def create_all(self, definitions: Sequence[Definition], owner: str) -> list[Reply | StoreError]:
        """Each on its own, as the host does it."""
        replies: list[Reply | StoreError] = []
        for one in definitions:
            try:
                replies.append(
                    await self.deliver(one.program.key, Command(Created("", b"", owner=owner), one))
                )
            except StoreError as error:
                replies.append(error)
        return replies

    async def forget(self, job_id: str) -> bool:
        """Removes what is left of a destroyed job."""
        return self.catalogue.entries.pop(job_id, None) is not None

    async def flush(self, job_id: str | None = None) -> None:
        """Returns at once, unless the history does not."""
        self.flushes += 1
        if self.is_history_locked:
            await asyncio.get_running_loop().create_future()
        if self.is_history_stuck:
            raise StoreUnavailable("the history cannot be written")

    def peek(self, job_id: str) -> None:
        """Nothing: the catalogue is read."""

    async def read(self, job_id: str) -> Job | None:
        self.was_read.set()
        found = self.documents.get(job_id)
        return None if found is None else Job(*found, Holder("node", "boot"))

    async def answer_calls(self, status: int = 200, body: bytes = b'{"rows": 7}') -> None:
        """Answers every request in flight, and those that the answers lead to."""
        while calls := [effect for effect in self.effects if isinstance(effect, Call)]:
            self.effects = [effect for effect in self.effects if not isinstance(effect, Call)]
            for call in calls:
                entry = await self.catalogue.find(call.token.uid)
                assert entry is not None
                await self.deliver(entry.job_id, Command(CallEnded(call.token, Answer(status, body=body))))

    def _turn(self, job_id: str, event: Event, definition: Definition | None, act: Act | None) -> Reply:
        self.turns += 1
        document, programs = self.documents.get(job_id, (None, {}))
        event, programs = self._bind(job_id, document, event, dict(programs), definition)
        decision = decide(Job(document, programs, Holder("node", "boot")), event, self.now())
        if act is not None:
            decision = note_act(decision, event, act)
        self.effects.extend(decision.effects)
        after = decision.document
        if after is not None:
            self._keep(job_id, after, programs, definition)
        elif document is not None:
            self.catalogue.entries[job_id] = bury(self.catalogue.entries[job_id], document, self.now())
            del self.documents[job_id]
        entry = self.catalogue.entries.get(job_id)
        if entry is not None:
            self.history.append(entry.uid, job_id, decision.records)
            self.audit.take(Batch(entry.uid, job_id, entry.tenant, self.turns, self.wall, decision.records))
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
            earlier = self.catalogue.entries.get(job_id)
            count = 0 if earlier is None else earlier.execute_number
            uid = f"life{self.turns}"
            return msgspec.structs.replace(event, uid=uid, key=KEY, execute_number=count), {
                1: definition.program
            }
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
        self.catalogue.entries[job_id] = describe(job_id, after, program, summarize(job))
        if definition is not None and program is definition.program:
            self.store.texts[after.head.uid, after.head.revision] = definition.text

    def _make_deps(self, settings: Mapping[str, Any]) -> ApiDependencies:
        async def ready() -> tuple[str, ...]:
            return self.missing

        async def nodes() -> tuple[Mapping[str, object], ...]:
            return ()

        async def clean(*, tenant: str, destroyed: bool, retain: int) -> Mapping[str, int]:
            self.cleaned.append((destroyed, retain))
            return {"jobs": 1, "executions": 2, "notifications": 3}

        def choose(kind: type, **own: Any) -> Any:
            known = {one.name for one in fields(kind)}
            return kind(**own | {name: value for name, value in settings.items() if name in known})

        authentication = Authentication(
            admin_key=settings.get("admin_key"),
            tenant="default",
            user=settings.get("user", "alice"),
            now=settings.get("clock", self).now,
            own_url=settings.get("own_url"),
            ring=settings.get("key_ring") or KeyRing(table=MemoryKeys(), clock=self),
            proxies=settings.get("proxies"),
        )
        masking = DefinitionMasking(conceal=Concealment(headers=MASKED_HEADERS, members=("pin",)))
        compiler = PlainCompiler(settings.get("surroundings", Surroundings(judge_secret=judge_secret)))
        trials = Trials(store=self, deliver=self.deliver, clock=self)
        drift = DriftReport(inputs=self.inputs, apart=work_apart)
        queues = PullQueues(table=EmptyQueues(), clock=self, log=self.log)
        shown = {"parts": lambda: self.parts, "standstills": self.standstills, "version": "1.2.3"}
        calendars = Calendars(table=MemoryCalendars(), clock=self)
        return choose(
            ApiDependencies,
            jobs=self,
            catalogue=self.catalogue,
            store=self.store,
            history=self.history,
            clock=self,
            definitions=choose(DefinitionParts, compiler=compiler, calendars=calendars),
            services=choose(
                ServiceParts, registry=self.registry, reconcile=self.scan, drift=drift, queues=queues
            ),
            security=choose(SecurityParts, authentication=authentication, audit=self.audit, masking=masking),
            upkeep=choose(UpkeepParts, operations=self.make_operations(), trials=trials, clean=clean),
            shown=choose(
                ShownParts,
                ready=ready,
                settings=dict,
                nodes=nodes,
                alerts=NoAlerts(),
                log=self.log,
                **shown,
            ),
            limits=choose(RequestLimits),
        )


class NoAlerts:
    """A service whose settings have none (`api.dependencies.AlertReader`)."""

    configured = ()

    async def open(self, *, is_own: bool) -> tuple[Sequence[AlertLine], int]:
        """None."""
        return (), 0


class PlainCompiler:
    """Compiles definitions without defaults of a platform."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self.compile_cache = CompileCache(default_zone="UTC")

    def around(self, tenant: str) -> Surroundings:
        """The same for all tenants."""
        return msgspec.structs.replace(self._around, tenant=tenant)

    def posted(self, definition: JobDefinition, tenant: str) -> Compiled:
        """As the product compiles it."""
        return compile_definition(definition, self.around(tenant))

    async def stored(self, text: bytes, tenant: str) -> Program:
        """As the product compiles it."""
        return compile_stored(parse_definition(json.loads(text)), self.around(tenant)).program

    def options(self, tenant: str) -> Mapping[str, object]:
        """None."""
        return {}


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


async def start(client: httpx.AsyncClient, job_id: str = "j1", **members: Any) -> str:
    """A job and its first execution."""
    await client.post(f"/jobs/{job_id}", json=definition(**members))
    return str((await client.post(f"/jobs/{job_id}/trigger")).json()["data"]["executionId"])


PATH = "/services/billing"


def declared(job_id: str, **members: Any) -> dict[str, Any]:
    """A job as a service declares it."""
    return {"jobId": job_id, **definition(**members)}


async def put(client: httpx.AsyncClient, *timers: dict[str, Any], status: int = 200, **members: Any) -> Any:
    """The service with these timers, as it is answered."""
    response = await client.put(PATH, json={"timers": list(timers), **members})
    assert response.status_code == status, response.text
    return response.json()["data"]
