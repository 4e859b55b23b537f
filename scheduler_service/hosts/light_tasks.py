"""Runs coroutines without a task for each: the same waits and the same cancelling, a fifth of the price.

An execution runs two coroutines, its ring and its call. As tasks of asyncio they cost 11 µs of 77, most of
it for the registry of all tasks, a name and a context of their own, which are not needed here.
"""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from functools import cached_property
from typing import Any


class LightTask:
    """One running coroutine. It may await futures and tasks; it has no `asyncio.current_task`.

    So `asyncio.timeout` does not work in it: code that needs that is awaited as a task. `label` is what
    `on_end` of its light tasks gets.
    """

    __slots__ = ("_awaited", "_coroutine", "_is_cancelled", "_tasks", "label")

    def __init__(
        self, coroutine: Coroutine[Any, Any, object], light_tasks: "LightTasks", label: str = ""
    ) -> None:
        self.label = label
        self._coroutine = coroutine
        self._tasks = light_tasks
        self._awaited: asyncio.Future[Any] | None = None
        self._is_cancelled = False

    def cancel(self) -> None:
        """Raises CancelledError where the coroutine waits, or where it waits next."""
        if self._awaited is None or not self._awaited.cancel():
            self._is_cancelled = True

    def step(self, _: object = None) -> None:
        """Runs to the next wait or to the end; called when the awaited future is done."""
        self._awaited = None
        try:
            if self._is_cancelled:
                self._is_cancelled = False
                awaited = self._coroutine.throw(asyncio.CancelledError())
            else:
                awaited = self._coroutine.send(None)
        except (StopIteration, asyncio.CancelledError):
            self._tasks.end(self)
        except Exception as error:  # noqa: BLE001 - as with a task, it is reported and stops nothing else
            self._tasks.end(self)
            context = {"message": "a light task failed", "exception": error}
            self._tasks.loop.call_exception_handler(context)
        else:
            if awaited is None:  # `asyncio.sleep(0)`
                self._tasks.loop.call_soon(self.step, context=self._tasks.context)
                return
            awaited._asyncio_future_blocking = False  # the flag by which `await` hands a future to its runner
            self._awaited = awaited
            awaited.add_done_callback(self.step, context=self._tasks.context)


class LightTasks:
    """The light tasks of one component. They belong to the event loop of the first one.

    `on_end` gets the label of each task that has ended, however it did.
    """

    def __init__(self, on_end: Callable[[str], None] | None = None) -> None:
        self._on_end = on_end
        self._tasks: set[LightTask] = set()
        self._ended: asyncio.Future[None] | None = None

    @cached_property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Their event loop; `get_running_loop` would cost a system call each time."""
        return asyncio.get_running_loop()

    @cached_property
    def context(self) -> contextvars.Context:
        """That of the first one, for all: a copy for each wait would be an object more while it waits."""
        return contextvars.copy_context()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, coroutine: Coroutine[Any, Any, object], label: str = "") -> LightTask:
        """Runs `coroutine` to its first wait, and the rest as its waits end."""
        task = LightTask(coroutine, self, label)
        self._tasks.add(task)
        task.step()
        return task

    def start_soon(self, coroutine: Coroutine[Any, Any, object], label: str = "") -> LightTask:
        """The same from the next round of the loop on: nothing of it runs inside of what goes on now."""
        task = LightTask(coroutine, self, label)
        self._tasks.add(task)
        self.loop.call_soon(task.step, context=self.context)
        return task

    def end(self, task: LightTask) -> None:
        """`task` has ended (called by itself)."""
        self._tasks.discard(task)
        if self._on_end is not None:
            self._on_end(task.label)
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def cancel(self) -> None:
        """Cancels them all."""
        for task in tuple(self._tasks):
            task.cancel()

    async def wait(self) -> None:
        """Returns when one of them has ended; at once where there is none."""
        if not self._tasks:
            return
        if self._ended is None or self._ended.done():
            self._ended = self.loop.create_future()
        await asyncio.shield(self._ended)

    async def wait_for_all(self) -> None:
        """Returns when there is none any more."""
        while self._tasks:
            await self.wait()
