"""Keeps an instance alive while its functions run: an event loop aside that watches the application's."""

import asyncio
import inspect
import logging
import sys
import threading
import time
from collections.abc import Coroutine
from contextlib import suppress
from itertools import pairwise
from types import FrameType
from typing import Any, TypeVar

from client_sdk.client.connection import Connection
from client_sdk.loops import LoopThread, run_on
from client_sdk.target.declaration import provided
from client_sdk.target.invoke import call_function

R = TypeVar("R")
LOG = logging.getLogger("client_sdk")
LOOK_SECONDS = 0.5
CALLERS = {call_function.__code__, inspect.unwrap(provided).__code__}
"""What they call is the application's: a function of a job, or what makes its object."""
BLOCKED_SECONDS = 1.0
"""From here on a function that holds the application's event loop is named."""


class ThreadKeeper:
    """Runs heartbeats, registrations and leases in a thread, whatever holds the application's event loop.

    To be made on that loop. With a transport that was given, which belongs to that loop, calls are made there
    all the same. What holds it for more than `blocked_seconds` is logged, when it is noticed, and at its end.
    """

    def __init__(self, connection: Connection, *, blocked_seconds: float = BLOCKED_SECONDS) -> None:
        self._blocked_seconds = blocked_seconds
        self._application = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._own = LoopThread("punctual-keeper")
        self._calls = self._own.loop if connection.takes_any_loop else self._application
        self._watching = asyncio.run_coroutine_threadsafe(self._watch(), self._own.loop)

    async def run(self, work: Coroutine[Any, Any, R]) -> R:
        """The result of `work`, which runs aside."""
        return await run_on(self._calls, work)

    async def close(self) -> None:
        """Ends what still runs aside, and the thread."""
        self._watching.cancel()
        await asyncio.to_thread(self._own.close)

    async def _watch(self) -> None:
        try:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                await self._look()
        except RuntimeError:  # the application's loop was closed: nothing of this instance runs any more
            asyncio.get_running_loop().stop()

    async def _look(self) -> None:
        """Returns once the application's loop goes on; logs it where that takes long."""
        asked, answered = time.monotonic(), asyncio.Event()
        here = asyncio.get_running_loop()
        self._application.call_soon_threadsafe(_answer, here, answered)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._blocked_seconds):
                await answered.wait()
                return
        if not self._application.is_running():
            await answered.wait()
            return
        place = describe_place(sys._current_frames().get(self._thread))
        LOG.warning("%s blocks the event loop, and all else waits: use await, or a plain function", place)
        await answered.wait()
        LOG.warning("%s has blocked the event loop for %.1f s", place, time.monotonic() - asked)


def _answer(loop: asyncio.AbstractEventLoop, answered: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the keeper was closed meanwhile, and its loop with it
        loop.call_soon_threadsafe(answered.set)


def describe_place(frame: FrameType | None) -> str:
    """The function of a job that runs in this stack, and the innermost line; without one that line alone."""
    stack: list[FrameType] = []
    while frame is not None:
        stack.append(frame)
        frame = frame.f_back
    if not stack:
        return "something"
    innermost = f"{stack[0].f_code.co_filename}:{stack[0].f_lineno}"
    for inner, outer in pairwise(stack):
        if outer.f_code in CALLERS:
            code = inner.f_code
            return f"{code.co_qualname} ({code.co_filename}:{inner.f_lineno}), now at {innermost},"
    return f"{stack[0].f_code.co_qualname} ({innermost}), no function of a job,"
