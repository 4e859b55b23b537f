"""Large work runs in one thread beside the loop, so that no single thing holds the loop for long.

One thread for the whole process: two would take turns with each other before the loop got one. What runs
there must be made of short steps: one call into C keeps the interpreter to itself, in whatever thread it is
made (docs/decisions/0028-slices-and-a-thread.md).
"""

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from scheduler_service.language.values import LARGE_BYTES

SWITCH_SECONDS = 0.000_2
"""While the thread is at work, the loop gets the interpreter within this time; a firing asks ten times."""

SLICE_ITEMS = 50
SLICE_BYTES = 16_384
"""So many small items, or so many bytes of them, are worked on before the loop may do something else."""

_THREAD = ThreadPoolExecutor(1, thread_name_prefix="large-work")
Result = TypeVar("Result")


async def work_apart(work: Callable[[], Result]) -> Result:
    """What `work` returns or raises, beside the loop; in the order in which it was asked for.

    `work` must not touch what the loop changes meanwhile.
    """
    return await asyncio.get_running_loop().run_in_executor(_THREAD, _run, work)


async def work_by_size(size: int, work: Callable[[], Result]) -> Result:
    """What `work`, which is about `size` bytes, returns or raises: at once, or apart where that is large.

    What is longer than `LARGE_BYTES` is; the way there costs about 0.1 ms.
    """
    return work() if size <= LARGE_BYTES else await work_apart(work)


class Slices:
    """Divides a long row of items: `pause` is awaited before each one."""

    def __init__(self) -> None:
        self._items = 0
        self._bytes = 0

    async def pause(self, size: int = 0) -> None:
        """Lets the loop do other things once a slice is full; `size` is that of the next item, in bytes."""
        if self._items >= SLICE_ITEMS or self._bytes >= SLICE_BYTES:
            self._items = self._bytes = 0
            await asyncio.sleep(0)
        self._items += 1
        self._bytes += size


def _run(work: Callable[[], Result]) -> Result:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        return work()
    finally:
        sys.setswitchinterval(usual)
