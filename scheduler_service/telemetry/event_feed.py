"""Lets readers follow what happens, each at its own pace, out of one bounded memory."""

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import Any

from scheduler_service.domain.errors import PunctualError
from scheduler_service.domain.occurrences import Occurrence
from scheduler_service.telemetry.event_reader import EventId, EventReader
from scheduler_service.telemetry.event_ring import EventRing, EventSource
from scheduler_service.telemetry.occurrences import Leave

KEEP_SECONDS = 300.0
"""So long events are kept after the last reader has gone: it may come back for them."""

GROUP_SECONDS = 0.05
"""Readers are woken at most so often, however much happens."""

BEGIN_SECONDS = 5.0
CLOSE_SECONDS = 0.5
Later = Callable[[float, Callable[[], None]], asyncio.TimerHandle]


class FeedClosed(PunctualError):
    """The service stops: nothing can be followed any more."""


class FeedFull(PunctualError):
    """As many readers as are allowed follow already."""


class EventFeed:
    """Follows a source while it has readers, and `KEEP_SECONDS` longer; before the first it costs nothing.

    Occurrences of the jobs `hidden` are left out. `later` is that of the event loop.
    """

    def __init__(
        self,
        *,
        source: EventSource,
        most_readers: int,
        hidden: Collection[str] = (),
        ring: EventRing | None = None,
        later: Later | None = None,
    ) -> None:
        self.ring = ring or EventRing()
        self.readers = 0
        self._source = source
        self._most_readers = most_readers
        self._hidden = frozenset(hidden)
        self._later = later
        self._leave: Leave | None = None
        self._begun = asyncio.Event()
        self._changed = asyncio.Event()
        self._left = asyncio.Event()
        self._waking: asyncio.TimerHandle | None = None
        self._ending: asyncio.TimerHandle | None = None
        self.is_closed = False

    @property
    def is_listening(self) -> bool:
        """Whether events are made."""
        return self._leave is not None

    async def follow(self, last: EventId | None = None) -> "EventReader":
        """A reader of all that comes after the event `last`, or from now on.

        Raises FeedFull, FeedClosed. A source that does not begin within some seconds is not waited for.
        """
        if self.is_closed:
            raise FeedClosed("the service stops; ask again in a moment")
        if self.readers >= self._most_readers:
            raise FeedFull(
                f"{self._most_readers} readers follow already, and more are not allowed "
                "(limits.event_readers); ask again later"
            )
        self.readers += 1
        self._left.clear()
        try:
            self._listen()
            async with asyncio.timeout(BEGIN_SECONDS):
                await self._begun.wait()
        except TimeoutError:
            pass
        except BaseException:
            self.leave()
            raise
        return EventReader(feed=self, ring=self.ring, source=self._source, last=last)

    def changed(self) -> Coroutine[Any, Any, bool]:
        """Ends when there is more than at the moment of the call, or the feed is closed."""
        return self._changed.wait()

    async def close(self) -> None:
        """Ends all readers, and waits a moment until those that can have gone."""
        self.is_closed = True
        self._wake()
        self._changed.set()
        if self.readers:
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._left.wait()
            except TimeoutError:
                pass
        if self._ending is not None:
            self._ending.cancel()
        self._end()

    def leave(self) -> None:
        """A reader has gone."""
        self.readers -= 1
        if self.readers:
            return
        self._left.set()
        if not self.is_closed:
            self._ending = self._call_later(KEEP_SECONDS, self._end)

    def begin(self, position: int) -> None:
        """The source begins (`EventSink`)."""
        self.ring.begin(position)
        self._begun.set()

    def add(self, position: int, occurrence: Occurrence) -> None:
        """The source has an event (`EventSink`)."""
        if occurrence.job_id is not None and occurrence.job_id in self._hidden:
            return
        self.ring.add(position, occurrence)
        if self._waking is None and not self._changed.is_set():
            self._waking = self._call_later(GROUP_SECONDS, self._wake)

    def _listen(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        if self._leave is None:
            self._leave = self._source.listen(self)

    def _end(self) -> None:
        self._ending = None
        if self._leave is not None:
            self._leave()
            self._leave = None
        self._begun.clear()
        self.ring.begin(self.ring.newest)

    def _wake(self) -> None:
        self._waking = None
        if self.is_closed:
            return
        self._changed.set()
        self._changed = asyncio.Event()

    def _call_later(self, seconds: float, work: Callable[[], None]) -> asyncio.TimerHandle:
        later = self._later or asyncio.get_running_loop().call_later
        return later(seconds, work)
