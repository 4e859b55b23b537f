"""What one execution costs, counted and not timed: one more turn, commit, task or statement fails here.

The unit is one firing of a one-step synchronous job through the host, the SQLite store and the history: two
turns, two commits, one call. Figures of time are for `tests/bench`; these hold on any machine.
"""

import asyncio
import gc
import json
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest

from scheduler_service.domain.moments import Now
from scheduler_service.domain.turn_events import Created, Event
from scheduler_service.domain.wire import Answer, Holder, OutboundRequest, Outcome
from scheduler_service.engine.decide import decide
from scheduler_service.engine.decision import Decision, Job
from scheduler_service.hosts.embedded.embedded_host import EmbeddedParts, build_embedded_host
from scheduler_service.persistence.common.packing import pack
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.history.writer import HistoryWriter
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.sending import MayGo, always
from scheduler_service.ports.state import Commit
from scheduler_service.security.history_masking import Masking
from scheduler_service.services.instances import Instances
from scheduler_service.services.router import MemoryRouter, Terms
from tests.manual_clock import WatchedClock
from tests.unit.hosts.house import CORE, SKEW, START, describe, until

COUNT = 200
MINUTE = 60_000


class Sender:
    """A target that is reached, and answers in the next round of the loop."""

    def __init__(self) -> None:
        self.sent = 0

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        """200 and a small JSON object."""
        self.sent += 1
        await asyncio.sleep(0)
        return Answer(200, (("content-type", "application/json"),), b'{"n":2}', False, 1, request.url)

    async def close(self) -> None:
        """Nothing to close."""


class Works:
    """A host over files, with counters at its edges."""

    def __init__(self, *, store: SqliteStateStore, history: HistoryWriter) -> None:
        self.store = store
        self.history = history
        self.sender = Sender()
        self.clock = WatchedClock(wall=START, skew=SKEW)
        self.turns = 0
        self.commits: list[Commit] = []
        self.statements: list[str] = []
        self._awaited = 0
        self._ended = asyncio.Event()
        self._commit = store.commit
        store.commit = self._count_commit  # type: ignore[method-assign]
        store.files.writing.set_trace_callback(self.statements.append)
        parts = EmbeddedParts(
            core=msgspec.structs.replace(CORE, decide=self._count_turn),
            store=store,
            history=history,
            sender=self.sender,
            router=MemoryRouter(instances=Instances(), terms=lambda _, __: Terms(), clock=self.clock),
            clock=self.clock,
            redact=Masking().redact_all,
            log=lambda event, /, **keys: None,
            holder=Holder("node", "1"),
            boot=store.boot,
        )
        self.host = build_embedded_host(parts)

    async def create(self, count: int, qos: int, steps: int) -> None:
        """Jobs that fire every minute, all at the same moments; each step after the first has a template."""
        await self.host.start()
        timer = {"period": "PT1M", "dueTime": "1m"}
        request = [REQUEST, *[FURTHER] * (steps - 1)]
        for number in range(count):
            job_id = f"job-{number}"
            definition = describe(jobId=job_id, timer=timer, qos=qos, request=request)
            await self.host(job_id, Command(Created("", b""), definition=definition))

    async def fire(self, count: int) -> None:
        """One firing of each of the `count` jobs, to its record in the history."""
        self._awaited = 2 * count
        self._ended.clear()
        await until(lambda: self.clock.sleepers > 0)  # alarms are being read: they sleep only after that
        self.clock.advance(MINUTE)
        await self._ended.wait()
        await self.history.flush()

    def reset(self) -> None:
        """Counts from here on."""
        self.turns = 0
        self.commits.clear()
        self.statements.clear()

    def _count_turn(self, job: Job, event: Event, now: Now) -> Decision:
        self.turns += 1
        return decide(job, event, now)

    def _count_commit(self, commit: Commit) -> Any:
        self.commits.append(commit)
        ended = asyncio.ensure_future(self._commit(commit))
        ended.add_done_callback(self._count_end)
        return ended

    def _count_end(self, commit: object) -> None:
        self._awaited -= 1
        if self._awaited == 0:
            self._ended.set()


REQUEST = {"url": "http://127.0.0.1:9/run", "body": {"n": 1}}
FURTHER = {"url": "http://127.0.0.1:9/run", "body": {"n": "${$.n}|json"}}


@asynccontextmanager
async def at_work(folder: Path, *, qos: int, steps: int = 1) -> AsyncIterator[Works]:
    """Warmed up by one firing of each job."""
    store = await SqliteStateStore.open(folder=folder, durability="process")
    database = HistoryDatabase(url=f"sqlite:///{folder}/history.db", durability="process")
    loop = asyncio.get_running_loop()

    def confirm(keys: Sequence[tuple[str, int]]) -> None:
        loop.call_soon_threadsafe(store.written, keys)

    history = HistoryWriter(database=database, on_written=confirm, on_trouble=lambda text: None)
    works = Works(store=store, history=history)
    try:
        await works.create(COUNT, qos, steps)
        await works.fire(COUNT)
        works.reset()
        yield works
    finally:
        await works.host.stop(0)
        database.close()


@pytest.mark.parametrize(("qos", "most"), [(0, 1_900), (1, 2_300)])
async def test_an_execution_is_two_turns_and_two_commits_of_few_bytes(
    tmp_path: Path, qos: int, most: int
) -> None:
    """The head before the call, the end after its answer; nothing else is waited for.

    The bytes are those of both documents and of both batches of records together. A transaction over many
    turns has a handful of statements, so few enough for a busy interpreter.
    """
    async with at_work(tmp_path, qos=qos) as works:
        await works.fire(COUNT)
        assert (works.turns, len(works.commits), works.sender.sent) == (2 * COUNT,) * 3
        written = sum(len(commit.document or b"") for commit in works.commits)
        batches = [commit.batch for commit in works.commits if commit.batch is not None]
        written += sum(len(pack(batch.records)) for batch in batches)
        assert most / 2 < written / COUNT < most
        groups = sum(statement.startswith("BEGIN") for statement in works.statements)
        # A group of n rows goes in statements of 256, 128, 64 … rows: at most 8 of each of two kinds.
        assert 0 < len(works.statements) <= groups * 20
        assert len(works.statements) < COUNT


async def test_an_execution_makes_no_task(tmp_path: Path) -> None:
    """Rings and calls are errands; a task each would be 11 µs of 77."""
    async with at_work(tmp_path, qos=0) as works:
        loop = asyncio.get_running_loop()
        made: list[str] = []

        def make(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
            made.append(coroutine.__qualname__)
            return asyncio.Task(coroutine, loop=loop)

        loop.set_task_factory(make)  # type: ignore[arg-type]
        try:
            await works.fire(COUNT)
        finally:
            loop.set_task_factory(None)
        assert len(made) < COUNT // 10, made[:5]


async def test_an_execution_leaves_nothing_in_memory(tmp_path: Path) -> None:
    """Ten firings of each job keep no more blocks than one."""
    async with at_work(tmp_path, qos=0) as works:
        await works.fire(COUNT)
        before = _blocks()
        for _ in range(10):
            works.reset()
            await works.fire(COUNT)
        works.reset()
        assert _blocks() - before < COUNT * 3


async def test_an_execution_leaves_no_circles(tmp_path: Path) -> None:
    """What is not needed any more goes by itself: the collector, which runs rarely, has nothing to find."""
    async with at_work(tmp_path, qos=0) as works:
        gc.collect()
        gc.disable()
        try:
            await works.fire(COUNT)
            works.reset()
            assert gc.collect() < COUNT // 4
        finally:
            gc.enable()


@pytest.mark.parametrize(("qos", "most"), [(0, 328), (1, 328)])
async def test_an_execution_calls_few_functions(tmp_path: Path, qos: int, most: int) -> None:
    """Python's own functions on the loop's thread, the measure of work that does not depend on a clock.

    Somebody who needs more says so here, with what it costs. There are
    312 of them, and up to 322 where other processes have the machine: work then comes in other groups. There
    were 7 more before a call was sent in the turn that begins it.
    """
    async with at_work(tmp_path, qos=qos) as works:
        calls = await _count_calls(lambda: works.fire(COUNT))
        assert most / 2 < calls / COUNT < most


async def test_a_step_of_a_chain_is_one_turn_without_a_commit(tmp_path: Path) -> None:
    """At qos 0 only the firing and the end are written; what a further step costs is counted as well.

    4 of the calls ask whether a turn takes long, so that it is decided beside the loop (decision 28).
    There are 515 in all, and up to 532 where other processes have the machine.
    """
    async with at_work(tmp_path, qos=0, steps=3) as works:
        calls = await _count_calls(lambda: works.fire(COUNT))
        assert works.turns == 4 * COUNT
        assert len(works.commits) == 2 * COUNT
        assert works.sender.sent == 2 * 3 * COUNT
        assert 250 < calls / COUNT < 540


async def _count_calls(run: Callable[[], Coroutine[Any, Any, None]]) -> int:
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        await run()
    finally:
        sys.setprofile(None)
    return calls


def _blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()


def test_the_unit_is_what_the_benchmarks_measure() -> None:
    """A job with one step, synchronous, with a body: as `tests/bench/stage.py` posts it."""
    assert json.loads(describe(request=[REQUEST]).text)["request"] == [REQUEST]
