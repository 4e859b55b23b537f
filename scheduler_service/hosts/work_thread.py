"""Large work, as turns on much are, runs in one thread beside the loop, so that nothing holds that for long.

One thread for the whole process: two would take turns with each other before the loop got one. What runs
there must be made of short steps: one call into C keeps the interpreter to itself, in whatever thread it is
made (docs/decisions/0028-slices-and-a-thread.md).
"""

import asyncio
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from scheduler_service.domain.document import Document, PartsOpen, PartsQueued
from scheduler_service.domain.moments import Now
from scheduler_service.domain.turn_events import (
    Activated,
    AlarmRang,
    Backfilled,
    CallEnded,
    Event,
    FeedbackArrived,
    PartEnded,
    Triggered,
)
from scheduler_service.domain.wire import Answer
from scheduler_service.engine.decision import Decision, Job
from scheduler_service.engine.firing import catches_up_many, fires_many
from scheduler_service.hosts.host_dependencies import Core
from scheduler_service.hosts.job_cache import COUNTED_TIMES, CachedJob, OpenBytes, weigh_open
from scheduler_service.language.json_values import LARGE_BYTES
from scheduler_service.pacing.interpreter import SHORT_TURNS, ShortTurns, short_collections
from scheduler_service.pacing.waiting_room import Place, Room
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.telemetry.metrics import metric_list
from scheduler_service.telemetry.metrics.metric_list import Sample

Result = TypeVar("Result")


class WorkThread:
    """The thread, and what it has done so far."""

    def __init__(self, turns: ShortTurns) -> None:
        self._turns = turns
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="large-work")
        self._waiting = 0
        self._done = 0
        self._seconds = 0.0

    async def run(self, work: Callable[[], Result]) -> Result:
        """What `work` returns or raises."""
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, self._do, work)
        finally:
            self._waiting -= 1

    def samples(self) -> Iterator[Sample]:
        """How much was done, and how much waits."""
        yield Sample(metric_list.LARGE_WORK.name, (), self._done)
        yield Sample(metric_list.LARGE_WORK_SECONDS.name, (), self._seconds)
        yield Sample(metric_list.LARGE_WORK_WAITING.name, (), self._waiting)

    def _do(self, work: Callable[[], Result]) -> Result:
        began = time.perf_counter()
        try:
            with self._turns.take(), short_collections():
                return work()
        except Exception as error:
            _empty_frames(error)
            raise
        finally:
            self._done += 1
            self._seconds += time.perf_counter() - began


def _empty_frames(error: BaseException) -> None:
    """Drops here what the functions that raised it had in hand: else the loop would, all of it in one go.

    90,000 headers that were read before they were refused took it 25 ms.
    """
    left: list[BaseException | None] = [error]
    seen: set[int] = set()
    for one in left:
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            traceback.clear_frames(one.__traceback__)
            left += (one.__cause__, one.__context__)


_THREAD = WorkThread(SHORT_TURNS)


async def work_apart(work: Callable[[], Result]) -> Result:
    """What `work` returns or raises, beside the loop; in the order in which it was asked for.

    `work` must not touch what the loop changes meanwhile.
    """
    return await _THREAD.run(work)


def large_work_samples() -> Iterator[Sample]:
    """The figures of this process's thread."""
    return _THREAD.samples()


async def work_by_size(size: int, work: Callable[[], Result]) -> Result:
    """What `work`, which is about `size` bytes, returns or raises: at once, or apart where that is large.

    What is longer than `LARGE_BYTES` is; the way there costs about 0.1 ms.
    """
    return work() if size <= LARGE_BYTES else await work_apart(work)


ROOM_BYTES = 10 << 20
ANY_BYTES = 1 << 20
"""So much a turn takes in any case, as its job's definition may be large."""
OPEN_BYTES = 1 << 10
"""About what an execution is in its job's state, beside its parameters."""
BUSY = "too many jobs with large states have turns at this moment; ask again in a moment"


class LargeTurns:
    """What turns take that last long (`takes_long`), from before their decision until they are durable.

    A turn has what it was asked for, what its job keeps, the state as it is written, and the requests and
    notifications that are made of it: some times as much as its job keeps afterwards. So the others wait in
    line, in the order of their asking, while those under way are about `ROOM_BYTES` large; a larger one is
    taken alone. `wait`: for so many ms (None: without an end).
    """

    def __init__(self, *, core: Core, open_bytes: OpenBytes, clock: Timekeeper, wait: int | None) -> None:
        self._core = core
        self._open_bytes = open_bytes
        self._room = Room(
            ROOM_BYTES, later=None if wait is None else lambda give_up: clock.call_after(wait, give_up)
        )

    @property
    def is_crowded(self) -> bool:
        """Whether turns wait in line."""
        return self._room.waiting > 0

    async def enter(self, document: Document | None, event: Event) -> Place:
        """A place for the turn, to be left when it is durable, or waits for something else than its decision
        and the store. Raises StoreUnavailable, for it to be asked for again: it was in line for too long.
        """
        size = ANY_BYTES + weigh_open(document) + COUNTED_TIMES * _weigh_event(event)
        try:
            return await self._room.take(size)
        except TimeoutError:
            raise StoreUnavailable(BUSY, is_public=True) from None

    async def decide(self, cached: CachedJob, job: Job, event: Event, now: Now) -> Decision:
        """A decision beside the loop; what its job keeps then counts before the next one is made."""
        decision = await work_apart(partial(self._core.decide, job, event, now))
        if not self._open_bytes.admit(cached, weigh_open(decision.document)):
            decision = await work_apart(partial(self._core.decide, replace(job, is_full=True), event, now))
            self._open_bytes.note(cached, weigh_open(decision.document))
        return decision


def takes_long(job: Job, event: Event, now: int) -> bool:
    """Whether a turn may hold the loop for more than some milliseconds; each turn asks.

    By sizes alone: of what the event brings, of what open executions have, of the templates that render it
    and of the firings that are owed at `now` (wall ms). Parameters against a schema count as long.
    """
    size, short, in_order = 0, LARGE_BYTES, False
    if type(event) is CallEnded:  # without a function for the two of each execution
        size = len(event.outcome.body) if type(event.outcome) is Answer else 0
    elif type(event) is not AlarmRang:
        size = _weigh_event(event)
    for program in job.programs.values():
        in_order |= program.timer.misfire_policy == "fire_all"
        if program.short_bytes < short:
            short = program.short_bytes
    if size > LARGE_BYTES or short < 0 or (in_order and fires_many(job, now)):
        return True
    document = job.document
    if document is None:
        return False
    current = job.programs[document.head.revision]
    if current.params_schema is not None and type(event) in (Triggered, Backfilled):
        return True
    if type(event) is Activated and catches_up_many(current.timer, event.misfire):
        return True
    for run in document.head.opens:  # also those that wait, as triggers for later do
        size += len(run.params)
        if len(run.params) > LARGE_BYTES:
            return True
    for context in document.contexts.values():
        own = 0 if context.told is None else len(context.told.response)
        for kept in context.responses:  # without a function: a chain asks for all of them after each step
            if kept.body:
                own += len(kept.body)
        phase = context.phase
        if type(phase) is PartsOpen:
            own += sum([len(part.request.body or b"") for part in phase.parts if part.request])
        elif type(phase) is PartsQueued:
            own += sum([len(end.body or b"") for end in phase.ends if end is not None])
        if own > LARGE_BYTES:
            return True
        size += own
    return short < LARGE_BYTES and size > short


def _weigh_event(event: Event) -> int:
    """The bytes that an event brings."""
    match event:
        case CallEnded(outcome=Answer(body=body)):
            return len(body)
        case PartEnded(end=end, request=request):
            return len(end.body or b"") + len(request.body or b"")
        case Triggered(params=params, replay=replay):
            return len(params) + sum(map(len, () if replay is None else replay.responses))
        case Backfilled(moments=moments, params=params):
            return len(moments) * (len(params) + OPEN_BYTES)
        case FeedbackArrived():
            return LARGE_BYTES  # or less: it is parsed already
        case _:
            return 0
