"""A thread that takes what waits, serves it together, and wakes the event loop once for all of it."""

import asyncio
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from scheduler_service.ports import StoreUnavailable

Item = TypeVar("Item")

# What became of an item: its result, or the error that its future raises.
Verdict = object


class Lane(Generic[Item]):
    """Items are served in the order in which they were put; `serve` answers them in that order.

    `serve` runs in the lane's thread and must not raise: an error is a verdict of the item that it hit.
    """

    def __init__(
        self,
        *,
        name: str,
        serve: Callable[[list[Item]], list[Verdict]],
        size: int,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._name = name
        self._serve = serve
        self._size = size
        self._loop = loop
        self._waiting: SimpleQueue[tuple[Item, asyncio.Future[Any]] | None] = SimpleQueue()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, item: Item) -> asyncio.Future[Any]:
        """Hands `item` in and returns at once. The future raises StoreUnavailable when the lane is closed."""
        future = self._loop.create_future()
        if self._closed:
            future.set_exception(StoreUnavailable(f"The store is closed: {self._name} takes nothing more."))
            return future
        self._waiting.put((item, future))
        return future

    async def close(self) -> None:
        """Serves what was handed in, then ends the thread. A second call waits for the same end."""
        if not self._closed:
            self._closed = True
            self._waiting.put(None)
        await asyncio.shield(self._ended)
        self._thread.join()

    def _run(self) -> None:
        last = False
        while not last:
            items, futures, last = self._take()
            if items:
                self._tell(_answer, list(zip(futures, self._serve(items), strict=True)))
        self._tell(_end, self._ended)

    def _take(self) -> tuple[list[Item], list[asyncio.Future[Any]], bool]:
        items: list[Item] = []
        futures: list[asyncio.Future[Any]] = []
        entry = self._waiting.get()
        while entry is not None:
            items.append(entry[0])
            futures.append(entry[1])
            if len(items) == self._size:
                return items, futures, False
            try:
                entry = self._waiting.get_nowait()
            except Empty:
                return items, futures, False
        return items, futures, True

    def _tell(self, call: Callable[[Any], None], value: object) -> None:
        try:
            self._loop.call_soon_threadsafe(call, value)
        except RuntimeError:
            # The loop was closed before the store: nobody is left who could wait for the answer.
            return


def _answer(verdicts: list[tuple[asyncio.Future[Any], Verdict]]) -> None:
    for future, verdict in verdicts:
        if future.done():
            continue
        if isinstance(verdict, Exception):
            future.set_exception(verdict)
        else:
            future.set_result(verdict)


def _end(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)
