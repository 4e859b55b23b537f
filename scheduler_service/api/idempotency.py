"""Keys of requests that are under way in this process: one request at a time for each of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary


class IdempotencyKeys:
    """Who comes with a key that is in use waits for whoever uses it, and is then told what became of it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def hold(self, scope: str, key: str) -> AsyncIterator[None]:
        """The key is the caller's alone until the block ends."""
        lock = self._locks.get((scope, key))
        if lock is None:
            lock = self._locks[scope, key] = asyncio.Lock()
        async with lock:
            yield
