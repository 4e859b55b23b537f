"""A long row of items, of whichever room, lets the loop do other things in between."""

import asyncio
import time
from collections.abc import Callable

SLICE_ITEMS = 50
SLICE_BYTES = 16_384
SLICE_SECONDS = 0.004
"""So many small items, or so many bytes of them, are worked on before the loop may do something else; after
this time none is begun."""


class Slices:
    """Divides a long row of items: `pause` is awaited before each one. `timer` counts seconds."""

    def __init__(self, timer: Callable[[], float] = time.perf_counter) -> None:
        self._items = 0
        self._bytes = 0
        self._timer = timer
        self._began = timer()

    async def pause(self, size: int = 0) -> None:
        """Lets the loop do other things once a slice is full; `size` is that of the next item, in bytes."""
        is_late = self._timer() - self._began >= SLICE_SECONDS
        if is_late or self._items >= SLICE_ITEMS or self._bytes >= SLICE_BYTES:
            self._items = self._bytes = 0
            await asyncio.sleep(0)
            self._began = self._timer()
        self._items += 1
        self._bytes += size
