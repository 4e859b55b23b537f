"""Looks up names that nobody waits for long: in threads of its own, and only a few at a time."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import ip_address
from threading import Thread

from scheduler_service.transport.addresses import Address
from scheduler_service.transport.resolver import Resolver

MOST_LOOKUPS = 4


def look_up(host: str) -> tuple[Address, ...]:
    """All addresses of `host`, by the machine's own resolver; blocks. Raises OSError, UnicodeError."""
    answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    # A scope ("fe80::1%2") is dropped: such an address is link-local and refused in any case.
    return tuple(ip_address(text) for text in {str(answer[4][0]).partition("%")[0] for answer in answers})


class SpareResolver(Resolver):
    """Runs at most `most` lookups at a time; more wait.

    The threads are daemons, and not those of the event loop: a name server that does not answer delays
    neither the requests of jobs nor the end of the process.
    """

    def __init__(
        self, *, look_up: Callable[[str], Sequence[Address]] = look_up, most: int = MOST_LOOKUPS
    ) -> None:
        self._look_up = look_up
        self._places = asyncio.Semaphore(most)

    async def resolve(self, host: str) -> Sequence[Address]:
        """All addresses of `host`. Raises OSError."""
        async with self._places:
            loop = asyncio.get_running_loop()
            ended: asyncio.Future[Sequence[Address] | OSError] = loop.create_future()
            Thread(target=self._work, args=(host, loop, ended), name="name-check", daemon=True).start()
            found = await ended
        if isinstance(found, OSError):
            raise found
        return found

    def _work(
        self,
        host: str,
        loop: asyncio.AbstractEventLoop,
        ended: "asyncio.Future[Sequence[Address] | OSError]",
    ) -> None:
        """Runs in a thread."""
        found: Sequence[Address] | OSError
        try:
            found = self._look_up(host)
        except (OSError, UnicodeError) as error:
            found = OSError(str(error))
        # Where the loop has ended, so has whoever asked.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, ended, found)


def _settle(ended: "asyncio.Future[Sequence[Address] | OSError]", found: Sequence[Address] | OSError) -> None:
    if not ended.done():
        ended.set_result(found)
