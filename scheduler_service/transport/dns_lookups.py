"""Looks up host names in daemon threads: a few for those that are answered, more while others are stuck."""

import asyncio
import errno
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import ip_address
from queue import SimpleQueue
from threading import Thread
from typing import Any

from scheduler_service.transport.addresses import Address

AT_ONCE = 8
"""So many lookups that have just begun are under way: more threads would hold up the loop."""
MOST = 64
"""So many are, with those that are stuck: each has a thread, and a descriptor or two."""
SPARE = 16
"""So many more may be of names that had an address before."""
REMEMBERED = 1_024
"""So many of those are known."""
STUCK_SECONDS = 0.05
"""A lookup that takes longer makes room for another: its name server does not answer, perhaps for 10 s."""

LookUp = Callable[[str], Sequence[Address]]
Found = Sequence[Address] | Exception


def look_up(host: str) -> tuple[Address, ...]:
    """All addresses of `host`, by the machine's own resolver; blocks. Raises OSError, UnicodeError."""
    answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    # A scope ("fe80::1%2") is dropped: such an address is link-local and refused in any case.
    texts = dict.fromkeys(str(answer[4][0]).partition("%")[0] for answer in answers)
    return tuple(ip_address(text) for text in texts)


class Lookup:
    """One lookup of a name, for all who wait for it."""

    __slots__ = ("began", "ended", "host", "is_proven", "waiters")

    def __init__(self, host: str, ended: "asyncio.Future[Sequence[Address]]", *, is_proven: bool) -> None:
        self.host = host
        self.ended = ended
        self.is_proven = is_proven
        self.waiters = 0
        self.began: float | None = None


def start_thread(work: Callable[[Lookup, asyncio.AbstractEventLoop], None], *arguments: Any) -> None:
    """Begins a thread that nobody waits for. Raises RuntimeError where the machine has none."""
    Thread(target=work, args=arguments, name="lookup", daemon=True).start()


class SystemResolver:
    """The machine's own resolver, for one event loop; concurrent callers share one lookup per name.

    At most `at_once` lookups that are younger than `stuck` seconds run at a time, and `most` in all, with
    `spare` more of names that had an address before. The others wait: those names first, and in the order of
    their asking. What nobody waits for any more is not begun. The threads are daemons, and not those of the
    loop: a name server that does not answer holds up neither the lookups of other names nor anything else,
    nor the end of the process.
    """

    def __init__(
        self,
        *,
        look_up: LookUp = look_up,
        at_once: int = AT_ONCE,
        most: int = MOST,
        spare: int = SPARE,
        stuck: float = STUCK_SECONDS,
        start: Callable[..., None] = start_thread,
    ) -> None:
        self._look_up = look_up
        self._at_once = at_once
        self._most = most
        self._spare = spare
        self._stuck = stuck
        self._start = start
        self._known: dict[str, Lookup] = {}
        self._proven: dict[str, None] = {}  # names that had an address when they were last looked up
        self._waiting: tuple[deque[Lookup], deque[Lookup]] = (deque(), deque())  # of others, of proven ones
        self._running: dict[Lookup, None] = {}  # in the order of their beginning
        self._threads = self._idle = 0  # of those that stay
        self._handed_over: SimpleQueue[tuple[Lookup, asyncio.AbstractEventLoop]] = SimpleQueue()
        self._timer: asyncio.TimerHandle | None = None

    async def resolve(self, host: str) -> Sequence[Address]:
        """All addresses of `host`, in the order in which to try them. Raises OSError, UnicodeError."""
        lookup = self._known.get(host)
        if lookup is None:
            ended = asyncio.get_running_loop().create_future()
            lookup = self._known[host] = Lookup(host, ended, is_proven=host in self._proven)
            self._waiting[lookup.is_proven].append(lookup)
            self._begin_some()
        lookup.waiters += 1
        try:
            return await asyncio.shield(lookup.ended)
        finally:
            lookup.waiters -= 1
            if not lookup.waiters and lookup.began is None and not lookup.ended.done():
                lookup.ended.cancel()
                self._waiting[lookup.is_proven].remove(lookup)
                del self._known[host]

    def _look_again(self) -> None:
        self._timer = None
        self._begin_some()

    def _begin_some(self) -> None:
        loop = asyncio.get_running_loop()
        while (line := self._next()) is not None and self._begin(line[0], loop):
            line.popleft()
        if any(self._waiting) and self._timer is None:
            self._timer = loop.call_later(self._stuck, self._look_again)

    def _next(self) -> deque[Lookup] | None:
        """The line of which the first one may begin."""
        others, proven = self._waiting
        if proven and self._has_room(self._most + self._spare):
            return proven
        return others if others and self._has_room(self._most) else None

    def _has_room(self, most: int) -> bool:
        """Whether fewer than `most` run, and few of them have just begun."""
        if len(self._running) >= most:
            return False
        young = time.monotonic() - self._stuck
        count = 0
        for lookup in reversed(self._running):
            if count == self._at_once or (lookup.began or 0.0) < young:
                break
            count += 1
        return count < self._at_once

    def _begin(self, lookup: Lookup, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether it has begun, or has failed; else there is no thread for it until another one ends."""
        if self._idle:
            self._idle -= 1
            self._handed_over.put((lookup, loop))
        else:
            stays = self._threads < self._at_once
            try:
                self._start(self._work_on if stays else self._work, lookup, loop)
            except RuntimeError as error:
                if self._running:
                    return False
                self._settle(lookup, OSError(errno.EAGAIN, f"{error}; raise TasksMax, or the limit of pids"))
                return True
            self._threads += stays
        lookup.began = time.monotonic()
        self._running[lookup] = None
        return True

    def _work_on(self, lookup: Lookup, loop: asyncio.AbstractEventLoop) -> None:
        """Runs in a thread that stays."""
        while True:
            self._work(lookup, loop, stays=True)
            lookup, loop = self._handed_over.get()

    def _work(self, lookup: Lookup, loop: asyncio.AbstractEventLoop, *, stays: bool = False) -> None:
        """Runs in a thread."""
        found: Found
        try:
            found = self._look_up(lookup.host)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome for those who wait
            found = error
        with suppress(RuntimeError):  # where the loop has ended, so have they
            loop.call_soon_threadsafe(self._end, lookup, found, stays)

    def _end(self, lookup: Lookup, found: Found, is_idle: bool) -> None:
        del self._running[lookup]
        self._idle += is_idle
        self._settle(lookup, found)
        self._begin_some()

    def _settle(self, lookup: Lookup, found: Found) -> None:
        del self._known[lookup.host]
        self._proven.pop(lookup.host, None)
        if isinstance(found, Exception):
            if getattr(found, "errno", None) == socket.EAI_AGAIN and lookup.is_proven:
                self._proven[lookup.host] = None  # its name server does not answer at this moment
            lookup.ended.set_exception(found)
            lookup.ended.exception()  # nobody may be waiting any more: this marks it as retrieved
            return
        self._proven[lookup.host] = None
        if len(self._proven) > REMEMBERED:
            del self._proven[next(iter(self._proven))]
        lookup.ended.set_result(found)
