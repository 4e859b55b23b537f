"""A thread that takes what waits, serves it together, and wakes the event loop once for all of it.

What the loop hands in during one of its rounds goes over at the round's end, as one: otherwise the first
item of many would wake the thread, which would serve it alone and take the interpreter from the others.
Items that are patient wait a few milliseconds more for others, unless one comes that is not.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from scheduler_service.ports.errors import StoreUnavailable

Item = TypeVar("Item")

RETRY_PAUSE = 0.5
"""How long nothing has to come before a lane rests, in seconds."""

MAX_WAIT_FOR_OTHERS = 0.004
"""How long patient items wait for others, in seconds."""

MOST_WAITING = 256
"""So many wait for nobody any more."""

# Items that are served together, who waits for them, and whether that is for one alone.
Entry = tuple[Sequence[Item], asyncio.Future[Any], bool]

# What became of an item: its result, or the error that its future raises.
Verdict = object


class WriteThread(Generic[Item]):
    """Items are served in the order in which they were put; `serve` answers them in that order.

    `serve` runs in the lane's thread and must not raise: an error is a verdict of the item that it hit.
    `rest` runs there too, when nothing has come for `pause` seconds after the last item; it says whether it
    wants to go on as long as nothing comes.
    """

    def __init__(
        self,
        *,
        name: str,
        serve: Callable[[list[Item]], list[Verdict]],
        size: int,
        loop: asyncio.AbstractEventLoop,
        rest: Callable[[], bool] | None = None,
        pause: float = RETRY_PAUSE,
    ) -> None:
        self._name = name
        self._serve = serve
        self._size = size
        self._loop = loop
        self._rest = rest
        self._pause = pause
        self._patience: float | None = None
        self._round: list[Entry[Item] | None] = []
        self._later: asyncio.TimerHandle | None = None  # while all of the round is patient
        self._waiting: SimpleQueue[list[Entry[Item] | None]] = SimpleQueue()
        self._taken: deque[Entry[Item] | None] = deque()  # of the thread: what came and is not served yet
        self._ended: asyncio.Future[None] = loop.create_future()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, item: Item, *, patient: bool = False) -> asyncio.Future[Any]:
        """Hands `item` in and returns at once. The future raises StoreUnavailable when the lane is closed."""
        return self._hand_in((item,), is_alone=True, patient=patient)

    def put_all(self, items: Sequence[Item]) -> asyncio.Future[list[Verdict]]:
        """The same for items that are served together; the future has their verdicts, errors among them."""
        return self._hand_in(items, is_alone=False)

    async def close(self) -> None:
        """Serves what was handed in, then ends the thread. A second call waits for the same end."""
        if not self._closed:
            self._closed = True
            self._round.append(None)
            self._hand_over()
        await asyncio.shield(self._ended)
        self._thread.join()

    def _hand_in(
        self, items: Sequence[Item], *, is_alone: bool, patient: bool = False
    ) -> asyncio.Future[Any]:
        future = self._loop.create_future()
        if self._closed:
            future.set_exception(StoreUnavailable(f"The store is closed: {self._name} takes nothing more."))
            return future
        if patient and not self._round:
            self._later = self._loop.call_later(MAX_WAIT_FOR_OTHERS, self._hand_over)
        elif not self._round or (self._later and not (patient and len(self._round) < MOST_WAITING)):
            self._end_wait()
            self._loop.call_soon(self._hand_over)
        self._round.append((items, future, is_alone))
        return future

    def _end_wait(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None

    def _hand_over(self) -> None:
        """The round has ended: all that came in it goes to the thread."""
        self._end_wait()
        if self._round:
            entries, self._round = self._round, []
            self._waiting.put(entries)

    def _run(self) -> None:
        last = False
        while not last:
            entries, last = self._take()
            if entries:
                verdicts = self._serve([item for items, _, _ in entries for item in items])
                self._tell(answer, (entries, verdicts))
        self._tell(_end, self._ended)

    def _take(self) -> tuple[list[Entry[Item]], bool]:
        """What is served together, and whether nothing comes after it. Rests while there is nothing."""
        entries: list[Entry[Item]] = []
        count = 0
        try:
            self._fetch(timeout=self._patience)
            self._patience = None if self._rest is None else self._pause
            while count < self._size:
                self._fetch(timeout=0)
                entry = self._taken.popleft()
                if entry is None:
                    return entries, True
                entries.append(entry)
                count += len(entry[0])
        except Empty:
            if not entries:
                self._patience = 0.0 if self._rest is not None and self._rest() else None
        return entries, False

    def _fetch(self, *, timeout: float | None) -> None:
        """Takes over what the next round handed in, where all before it is served. Raises Empty."""
        if not self._taken:
            self._taken.extend(self._waiting.get(timeout=timeout))

    def _tell(self, call: Callable[[Any], None], value: object) -> None:
        try:
            self._loop.call_soon_threadsafe(call, value)
        except RuntimeError:
            # The loop was closed before the store: nobody is left who could wait for the answer.
            return


def answer(served: tuple[list[Entry[Any]], list[Verdict]]) -> None:
    """Tells those who wait for entries what became of them, in their order."""
    entries, verdicts = served
    start = 0
    for items, future, is_alone in entries:
        some = verdicts[start : start + len(items)]
        start += len(items)
        if future.done():
            continue
        if not is_alone:
            future.set_result(some)
        elif isinstance(some[0], Exception):
            future.set_exception(some[0])
        else:
            future.set_result(some[0])


def _end(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)
