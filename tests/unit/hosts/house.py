"""A host in a test's hand: the real engine, a clock that jumps, a disk that outlives a crash."""

import asyncio
import json
from collections.abc import Callable, Container
from typing import Any

import msgspec

from client_sdk.models import parse_definition
from scheduler_service.domain.execution import DeliveryState, ExecutionState
from scheduler_service.domain.job_key import write_job_key
from scheduler_service.domain.records import DeliveryRecord, ExecutionRecord, Record
from scheduler_service.domain.replies import Reply
from scheduler_service.domain.turn_events import Created, Event, Triggered
from scheduler_service.domain.wire import Holder, LastBegun
from scheduler_service.engine.compile import compile_definition
from scheduler_service.engine.program import Program, Surroundings
from scheduler_service.hosts.begun_executions import BegunMark
from scheduler_service.hosts.embedded.embedded_host import EmbeddedParts, build_embedded_host
from scheduler_service.hosts.host_dependencies import Core
from scheduler_service.hosts.work_thread import large_work_samples, work_apart
from scheduler_service.ports.delivery import Command, Definition
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.history import Batch, History
from scheduler_service.ports.state import StateStore
from scheduler_service.security.history_masking import Masking
from scheduler_service.services.instances import Instance, Instances
from scheduler_service.services.lost_instances import Losses
from scheduler_service.services.router import MemoryRouter, Terms
from scheduler_service.telemetry.metrics import metric_list
from tests.manual_clock import ManualClock
from tests.unit.hosts.memory_store import Disk, Entry, MemoryStore
from tests.unit.hosts.scripted_sender import ScriptedSender

START = 1_700_000_000_000
SKEW = 1_699_000_000_000


def describe(**members: Any) -> Definition:
    """A checked definition: one POST, fired from outside; `members` win."""
    base: dict[str, Any] = {
        "jobId": "job",
        "jobName": "a job",
        "creator": "1",
        "creatorName": "one",
        "timer": {"period": "external"},
        "request": [{"url": "http://target.test/run"}],
    }
    text = json.dumps(base | members).encode()
    return Definition(text, compile_text(text))


def asynchronous(**members: Any) -> dict[str, Any]:
    """Members of an asynchronous job."""
    return {"async": True} | members


def compile_text(text: bytes) -> Program:
    """`ports.Compile` with the surroundings as shipped."""
    return compile_definition(parse_definition(json.loads(text)), Surroundings()).program


async def compile_stored(text: bytes, tenant: str) -> Program:
    """`compile_text`, as a host awaits it."""
    return compile_text(text)


CORE = Core(compile_stored)


class MemoryHistory(History):
    """Keeps what it is given; confirms durable batches to its store when it is flushed.

    `processes` are the histories of all that write the same one, this among them.

    A flush hangs until `gate` is set, where there is one, and raises `fault`, where there is one.
    """

    gate: asyncio.Event | None = None
    has_much = False
    fault: StoreError | None = None

    def __init__(self, store: StateStore, journal: list[Entry]) -> None:
        self.store = store
        self.journal = journal
        self.batches: list[tuple[Batch, bool]] = []
        self.processes = [self]
        self.flushed = 0
        self.is_closed = False

    def append(self, batch: Batch, *, durable: bool) -> None:
        self.journal.append(("history", batch.job_id, durable))
        self.batches.append((batch, durable))

    def is_behind(self) -> bool:
        return self.has_much

    async def flush(self) -> None:
        if self.gate is not None:
            await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        self.flushed = len(self.batches)
        await self.store.written([(batch.uid, batch.sequence) for batch, durable in self.batches if durable])

    async def dismiss_lost(self, name: str, holders: Container[str], now: int) -> bool:
        await self.flush()
        given = [batch for history in self.processes for batch, _ in history.batches]
        known = [
            (len(one.tries), batch.at, number, batch, one)
            for number, batch in enumerate(given)
            for one in batch.records
            if isinstance(one, DeliveryRecord) and write_job_key(batch.tenant, one.delivery_id) == name
        ]
        if not known:
            return False
        *_, batch, latest = max(known)
        if latest.state != DeliveryState.PENDING or latest.holder in holders:
            return False
        dismissed = msgspec.structs.replace(
            latest, state=DeliveryState.DISMISSED, next_try_at=None, holder=""
        )
        self.append(msgspec.structs.replace(batch, at=now, records=(dismissed,)), durable=False)
        return True

    async def close(self) -> None:
        self.journal.append(("history closed",))
        self.is_closed = True

    def records(self) -> list[Record]:
        """All of them, in order."""
        return [record for batch, _ in self.batches for record in batch.records]


class Handles:
    """What a test holds of any host; a house adds its processes, its world and how they go down."""

    host: Any  # EmbeddedHost or DaprHost
    clock: ManualClock
    uids = 0

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.journal: list[Entry] = []
        self.log: list[tuple[str, dict[str, object]]] = []
        self.clock = ManualClock(wall=START, skew=SKEW)
        self.sender = ScriptedSender(self.journal)
        self.instances = Instances()

    def announce(self, *names: str, service: str = "shop", **members: Any) -> None:
        """These instances of a service have just been heard of."""
        for name in names:
            self.instances.register(
                Instance(
                    service, "default", name, f"http://{name}.test", seen=self.clock.now().steady, **members
                )
            )

    def batches(self, job_id: str = "job") -> list[Batch]:
        """Every batch of the job that was handed over anywhere."""
        raise NotImplementedError

    def records(self) -> list[Record]:
        """Every record that any history was given."""
        raise NotImplementedError

    async def settle(self) -> None:
        """Returns when everything that can go on without the clock has."""
        raise NotImplementedError

    async def create(self, job_id: str = "job", **members: Any) -> Reply:
        """Delivers Created."""
        return await self.host(
            job_id, Command(Created("", b""), definition=describe(jobId=job_id, **members))
        )

    async def trigger(self, job_id: str = "job") -> Reply:
        """Delivers Triggered."""
        return await self.host(job_id, Command(Triggered()))

    async def deliver(self, event: Event, job_id: str = "job") -> Reply:
        """Delivers any event."""
        return await self.host(job_id, Command(event))

    async def advance(self, pause: int) -> None:
        """The clock runs on, from one planned call to the next."""
        await self.settle()
        await self.clock.run_on(pause, self.settle)

    def executions(self, job_id: str = "job") -> dict[int, ExecutionState]:
        """The last recorded state of every execution, of all processes."""
        found: dict[int, tuple[int, ExecutionState]] = {}
        for batch in self.batches(job_id):
            for record in batch.records:
                if isinstance(record, ExecutionRecord):
                    known = found.get(record.execute_number, (0, record.state))
                    if batch.sequence >= known[0]:
                        found[record.execute_number] = (batch.sequence, record.state)
        return {number: state for number, (_, state) in sorted(found.items())}

    def delivery_states(self) -> dict[str, str]:
        """event → the last recorded state of its delivery."""
        return {one.event: one.state for one in self.records() if isinstance(one, DeliveryRecord)}

    def order(self, *names: str) -> list[Entry]:
        """The journal, only the entries that begin with one of `names`."""
        return [entry for entry in self.journal if entry[0] in names]

    def _write_log(self, event: str, /, **keys: object) -> None:
        self.log.append((event, keys))

    def _new_life(self) -> tuple[str, bytes]:
        self.uids += 1
        return f"uid{self.uids}", b"k" * 32


class House(Handles):
    """One disk, and the processes that work on it, one after the other.

    `keeps_mark`: the memory that outlives a process has not been lost with it, as by a reboot.
    """

    keeps_mark = True

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._foreign = asyncio.all_tasks()
        self.disk = Disk()
        self.boot = 0
        self.begun = BegunMark()
        self.terms: dict[str, Terms] = {}
        self.open()

    def open(self) -> None:
        """A new process over the disk; nothing is started yet."""
        last = LastBegun(Holder("node", str(self.boot)), self.begun.moment)
        self.begun = BegunMark(last=last if self.boot and self.keeps_mark else None)
        self.boot += 1
        self.store = MemoryStore(self.disk, self.journal)
        self.history = MemoryHistory(self.store, self.journal)
        self.history.processes = [*getattr(self, "lost", ()), self.history]
        self.sender = ScriptedSender(self.journal)
        # Who runs is in the memory of a process, and heard of anew after a start; here at once.
        losses = Losses(
            instances=self.instances,
            clock=self.clock,
            lost_after=10_000,
            complete_at=lambda: 0,
            log=self._write_log,
        )
        self.router = MemoryRouter(
            instances=self.instances, terms=self._terms, clock=self.clock, losses=losses
        )
        parts = EmbeddedParts(
            store=self.keep(self.store),
            history=self.history,
            sender=self.sender,
            router=self.router,
            clock=self.clock,
            redact=Masking().redact_all,
            log=self._write_log,
            holder=Holder("node", str(self.boot)),
            boot=self.boot,
            begun=self.begun,
            new_identity=self._new_life,
            **({"core": CORE} | self.options),
        )
        self.host = build_embedded_host(parts)

    def keep(self, store: MemoryStore) -> StateStore:
        """The store of the present process."""
        return store

    async def start(self) -> "House":
        """Starts the present process."""
        await self.host.start()
        await self.settle()
        return self

    async def crash(self) -> None:
        """The process dies where it stands, and another one is opened over what was durable."""
        self.store.die()
        self.host.abort()
        others = [task for task in asyncio.all_tasks() - self._foreign if not runs_test(task)]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        self.open()

    async def settle(self) -> None:
        """Returns when everything that can go on without the clock has."""
        for _ in range(100):
            for _ in range(60):
                await asyncio.sleep(0)
            if not await wait_for_large_work():
                return
        raise AssertionError("large work has no end")

    def batches(self, job_id: str = "job") -> list[Batch]:
        """Every batch that the history was given or that lies in the store."""
        given = [batch for batch, _ in self.history.batches]
        return [batch for batch in [*given, *self.disk.unwritten.values()] if batch.job_id == job_id]

    def records(self) -> list[Record]:
        """Every record that the present process's history was given."""
        return self.history.records()

    def _terms(self, tenant: str, service: str) -> Terms:
        return self.terms.get(service, Terms())


def runs_test(task: "asyncio.Task[Any]") -> bool:
    """The test itself, or what anyio waits for it with."""
    code = getattr(task.get_coro(), "cr_code", None)
    return task is asyncio.current_task() or (code is not None and "/anyio/" in code.co_filename)


async def wait_for_large_work() -> bool:
    """Waits for what the thread for large work was asked for; whether there was any."""
    samples = {sample.family: sample.value for sample in large_work_samples()}
    if not samples[metric_list.LARGE_WORK_WAITING.name]:
        return False
    await work_apart(lambda: None)
    return True


async def until(condition: Callable[[], bool]) -> None:
    """Lets the loop run until `condition` holds; gives up after many rounds (a busy machine needs more)."""
    for _ in range(20_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not come to that")


replace = msgspec.structs.replace
