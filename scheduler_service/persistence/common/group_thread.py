"""A thread that serves what is waiting in one group, and wakes the event loop once for the whole group.

Items put in during one round of the event loop are handed over together at the end of that round. Otherwise
the first of many would wake the thread, which would serve it alone and take the interpreter from the others.
Items that may wait stay some milliseconds longer, unless one comes that may not.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar

from scheduler_service.pacing.fair_line import FairLine
from scheduler_service.ports.errors import StoreUnavailable, StoreUncertain, store_closed
from scheduler_service.telemetry.metrics import metric_list
from scheduler_service.telemetry.metrics.metric_list import Histogram, Sample

Item = TypeVar("Item")
Verdict = object
"""The outcome of an item: its result, or the error that its future raises."""

STATE = "state"
MAX_WAIT_FOR_OTHERS_SECONDS = 0.004
"""How long a commit that may wait is kept back so that others join its group (decision 19)."""

MAX_WAITING = 256
"""So many items that may wait are handed over at once: they are a group by themselves."""

ANSWERED_AT_ONCE = 16
"""So many entries of a group have their outcome in one round of the loop: each lets a turn of a job go on,
which takes 50 to 100 µs, and the loop does other things before the next ones."""

FEW = 128
"""Where more wait owners take turns. Fewer are over in some ms, in whatever order."""

# What was put in together: the items, the future of their outcome, whether it is that of a single item.
Entry = tuple[Sequence[Item], asyncio.Future[Any], bool]


class Weights(NamedTuple, Generic[Item]):
    """Large items are over `large` bytes, as `weigh` says; a group takes about `most` bytes of those."""

    weigh: Callable[[Item], int]
    large: int
    most: int


class GroupThread(Generic[Item]):
    """Serves items in the order in which they were put in; with `weights` small ones pass large ones.

    Each group has all that are small, and then large ones in their order: so that large ones do not hold up
    the others, nor these them. Where more than `FEW` wait, the owners that `owner` names take turns. Nobody
    who waits for an item knows what becomes of another one, so no order is promised to anybody.

    `serve` runs in the thread and returns one verdict per item in their order: an error is the verdict of the
    item that it hit. What it raises is the verdict of all items of the group. Items that
    may wait are kept back for at most `wait_seconds`.
    """

    def __init__(
        self,
        *,
        name: str,
        serve: Callable[[list[Item]], list[Verdict]],
        size: int,
        loop: asyncio.AbstractEventLoop,
        wait_seconds: float = MAX_WAIT_FOR_OTHERS_SECONDS,
        weights: Weights[Item] | None = None,
        owner: Callable[[Item], str] | None = None,
    ) -> None:
        self._name = name
        self.groups = GroupFigures()
        self._serve = serve
        self._size = size
        self._loop = loop
        self._wait_seconds = wait_seconds
        self._round: list[Entry[Item] | None] = []  # None: the thread ends after what came before
        self._timer: asyncio.TimerHandle | None = None  # set while all items of the round may wait
        self._handed_over: SimpleQueue[list[Entry[Item] | None]] = SimpleQueue()
        self._given, self._got = 0, 0  # entries: the loop counts those it handed over, the thread what it has
        self._fetched: deque[Entry[Item]] = deque()  # the thread's own: fetched, not served yet
        self._owner = owner
        self._line: FairLine[asyncio.Future[Any], Entry[Item]] = FairLine()  # the same, where they are many
        self._alike, self._sole = 0, ""  # so many of the first that are fetched are of this owner
        self._weights = weights
        self._large: deque[tuple[int, Entry[Item]]] = deque()  # the thread's own: passed by others
        self.weight = 0
        """Of the group that is served, the sum by `weights`. For `serve`."""
        self._is_last = False
        self._answering: deque[Iterator[None]] = deque()  # the loop's own, in the order of the groups
        self._ended: asyncio.Future[None] = loop.create_future()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, *items: Item, may_wait: bool = False, is_alone: bool = True) -> asyncio.Future[Any]:
        """Returns at once; the future has the verdict on the one item. Raises StoreUnavailable after `close`.

        Not `is_alone`: `items` stay in one group; the future has their verdicts, errors among them.
        """
        future = self._loop.create_future()
        if self._closed:
            future.set_exception(store_closed())
            return future
        if may_wait and not self._round:
            self._timer = self._loop.call_later(self._wait_seconds, self._hand_over)
        elif not self._round or (self._timer and not (may_wait and len(self._round) < MAX_WAITING)):
            self._cancel_timer()
            self._loop.call_soon(self._hand_over)
        self._round.append((items, future, is_alone))
        return future

    @property
    def waiting(self) -> int:
        """About how many entries, one for each call of `put`, are in no group yet."""
        waiting = len(self._fetched) + len(self._line) + len(self._large)
        return len(self._round) + self._given - self._got + waiting

    async def close(self) -> None:
        """Serves what was put in, then ends the thread. A second call waits for the same end."""
        if not self._closed:
            self._closed = True
            self._round.append(None)
            self._hand_over()
        await asyncio.shield(self._ended)
        self._thread.join()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _hand_over(self) -> None:
        """Gives the thread all items of the round."""
        self._cancel_timer()
        if self._round:
            entries, self._round = self._round, []
            self._given += len(entries)
            self._handed_over.put(entries)

    def _run(self) -> None:
        last = False
        while not last:
            entries, last = self._take()
            if entries:
                began = time.perf_counter()
                verdicts = self._serve_all([item for items, _, _ in entries for item in items])
                self.groups.note(verdicts, time.perf_counter() - began)
                self._call_loop(entries, verdicts)
        self._call_loop([((), self._ended, False)], [])

    def _serve_all(self, items: list[Item]) -> list[Verdict]:
        try:
            return self._serve(items)
        except Exception as error:  # noqa: BLE001 - a thread that ends would leave all who wait, for ever
            return [error] * len(items)

    def _take(self) -> tuple[list[Entry[Item]], bool]:
        """The next group, and whether it is the last one; waits while there is nothing."""
        self._fetch()
        if self._owner is not None and (self._line.size or len(self._fetched) > FEW):
            self._line_up(self._owner)
        line, fetched = self._line, self._fetched
        entries: list[Entry[Item]] = []
        count = 0
        self.weight = 0
        left = len(fetched)
        while count < self._size and (line.size or fetched):
            entry = line.pop()[1] if line.size else fetched.popleft()
            if self._weights is None or not self._sets_aside(entry, self._weights):
                entries.append(entry)
                count += len(entry[0])
        self._alike = max(self._alike - (left - len(fetched)), 0)
        self._add_large(entries)
        return entries, self._is_last and not (self._large or line or fetched)

    def _line_up(self, owner: Callable[[Item], str]) -> None:
        """What is fetched, by owners, where there are several."""
        fetched, line = self._fetched, self._line
        owners = [owner(items[0]) if items else "" for items, _, _ in islice(fetched, self._alike, None)]
        if not (line.size or self._alike):
            self._sole = owners[0]
        if not line.size and owners.count(self._sole) == len(owners):
            self._alike = len(fetched)  # of one owner: that is a line already
            return
        owners[:0] = [self._sole] * self._alike
        for name, entry in zip(owners, fetched, strict=True):
            line.add(entry[1], entry, name)
        fetched.clear()
        self._alike = 0

    def _sets_aside(self, entry: Entry[Item], weights: Weights[Item]) -> bool:
        """Puts a large one behind those that are large already."""
        items = entry[0]
        # Mostly it is one: so that is weighed by one call.
        size = weights.weigh(items[0]) if len(items) == 1 else sum(map(weights.weigh, items))
        if size <= weights.large:
            self.weight += size
            return False
        self._large.append((size, entry))
        return True

    def _add_large(self, entries: list[Entry[Item]]) -> None:
        """As many as fit the group, and at least one."""
        size = 0
        while self._large and self._weights is not None:
            own = self._large[0][0]
            size += own
            if size > self._weights.most and size > own:
                return
            entries.append(self._large.popleft()[1])
            self.weight += own

    def _fetch(self) -> None:
        """Takes all that was handed over; waits where there is nothing else to do."""
        is_idle = not (self._fetched or self._line or self._large or self._is_last)
        with suppress(Empty):
            while True:
                handed_over = self._handed_over.get(block=is_idle)
                is_idle = False
                if handed_over[-1] is None:
                    self._is_last = True
                self._fetched.extend(entry for entry in handed_over if entry is not None)
                self._got += len(handed_over)

    def _call_loop(self, entries: Sequence[Entry[Item]], verdicts: Sequence[Verdict]) -> None:
        try:
            self._loop.call_soon_threadsafe(self._begin_to_answer, entries, verdicts)
        except RuntimeError:
            # The loop was closed before the store: nothing can wait for the result any more.
            return

    def _begin_to_answer(self, entries: Sequence[Entry[Item]], verdicts: Sequence[Verdict]) -> None:
        self._answering.append(answer(entries, verdicts))
        if len(self._answering) == 1:
            self._answer_some()

    def _answer_some(self) -> None:
        while self._answering:
            for _ in self._answering[0]:
                self._loop.call_soon(self._answer_some)
                return
            self._answering.popleft()


class GroupFigures:
    """Figures of one writer, which alone calls `note`; they may be read from another thread."""

    def __init__(self) -> None:
        self._sizes = Histogram(metric_list.COMMIT_SIZE)
        self._seconds = Histogram(metric_list.COMMIT_DURATION)
        self._failed = 0
        self._is_failing = False

    def note(self, verdicts: Sequence[Verdict], seconds: float) -> None:
        """One more group. What another writer was first with is no failure of the store."""
        failed = 0
        if verdicts.count(None) < len(verdicts):
            failed = sum(isinstance(verdict, (StoreUnavailable, StoreUncertain)) for verdict in verdicts)
        self._failed += failed
        self._is_failing = failed > 0
        self._sizes.observe(len(verdicts))
        self._seconds.observe(seconds)

    def samples(self, *, is_away: bool = False) -> Iterator[Sample]:
        """All figures; the store is up if its latest group was written, and it is not `is_away`."""
        yield self._sizes.sample()
        yield self._seconds.sample()
        yield Sample(metric_list.STORE_ERRORS.name, (STATE,), self._failed)
        yield Sample(metric_list.STORE_UP.name, (STATE,), int(not (self._is_failing or is_away)))


def answer(entries: Sequence[Entry[Any]], verdicts: Sequence[Verdict]) -> Iterator[None]:
    """Sets the futures of `entries`; the verdicts are in the order of their items.

    Yields where the loop is to do other things before it goes on.
    """
    start = 0
    for place, (items, future, is_alone) in enumerate(entries):
        if place and not place % ANSWERED_AT_ONCE:
            yield
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
