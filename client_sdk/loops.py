"""Event loops beside that of the application: a loop in a thread, and work on another loop."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from client_sdk.errors import SdkError

R = TypeVar("R")


async def run_on(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, R]) -> R:
    """The result of `work`, which runs on `loop`; cancelling the caller cancels it."""
    if loop is asyncio.get_running_loop():
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


class LoopThread:
    """An event loop in a daemon thread of its own; in a forked process another one, made when needed."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._is_closed = False
        self._lock = threading.Lock()
        self._of_parents: list[asyncio.AbstractEventLoop] = []
        self._begin()

    @property
    def is_open(self) -> bool:
        """Whether it was not closed."""
        return not self._is_closed

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop, running in this process. Raises SdkError: it is closed."""
        if self._is_closed:
            raise SdkError("the client is closed: make a new one")
        with self._lock:
            if self._process != os.getpid():
                # Its thread is not in this process, but its descriptors are: closing it would change those
                # of the parent, so it is kept as it is.
                self._of_parents.append(self._loop)
                self._begin()
        return self._loop

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """The result of `work`, blocking; an interrupted caller cancels it. Raises SdkError: it is closed."""
        try:
            future = asyncio.run_coroutine_threadsafe(work, self.loop)
        except SdkError:
            work.close()
            raise
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Cancels what runs on the loop, and ends it and its thread."""
        if self._is_closed:
            return
        loop = self.loop
        self._is_closed = True
        with suppress(RuntimeError):  # it has ended by itself
            loop.call_soon_threadsafe(loop.stop)
        self._thread.join()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_serve, args=(self._loop,), name=self._name, daemon=True)
        self._thread.start()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Runs the loop until it is stopped; then what still runs there is cancelled, and connections close."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()


class StartedTasks:
    """The tasks that were started here and have not ended yet."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Runs `work` as a task."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait_for_one(self) -> None:
        """Returns when one of them has ended; at once if there are none."""
        if self._tasks:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)

    async def wait_for_all(self, timeout: float | None = None) -> None:
        """Returns when all have ended, also those started meanwhile, or after `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                while self._tasks:
                    await asyncio.wait(self._tasks)
        except TimeoutError:
            return

    async def cancel(self) -> None:
        """Cancels all and returns when they have ended."""
        await cancel(*self._tasks)


async def cancel(*tasks: "asyncio.Task[Any]") -> None:
    """Cancels the tasks and returns when they have ended, however they end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
