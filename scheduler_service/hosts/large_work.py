"""Large work runs in one thread beside the loop, so that no single thing holds the loop for long.

One thread for the whole process: two would take turns with each other before the loop got one. What runs
there must be made of short steps: one call into C keeps the interpreter to itself, in whatever thread it is
made (docs/decisions/0028-slices-and-a-thread.md).
"""

import asyncio
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from scheduler_service.language.values import LARGE_BYTES
from scheduler_service.pacing.interpreter import SHORT_TURNS, ShortTurns, short_collections
from scheduler_service.telemetry.metrics import families
from scheduler_service.telemetry.metrics.samples import Sample

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
        yield Sample(families.LARGE_WORK.name, (), self._done)
        yield Sample(families.LARGE_WORK_SECONDS.name, (), self._seconds)
        yield Sample(families.LARGE_WORK_WAITING.name, (), self._waiting)

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
