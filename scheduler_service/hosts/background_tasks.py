"""Tasks that nothing else awaits: plain, light and lasting ones; how a node drains (SPEC section 14)."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine
from functools import cached_property
from typing import Any

from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.turn_events import Activated, Backfilled, Created, Released, Triggered, Updated
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.history import History
from scheduler_service.ports.log import Log
from scheduler_service.telemetry.logs import place_of, shorten

AGAIN_MS = SECOND


def keep_at(
    work: Callable[[], Awaitable[None]], *, name: str, clock: Timekeeper, log: Log
) -> "asyncio.Task[None]":
    """A task that runs `work` until it returns or is cancelled.

    `work` handles the errors that it knows. Any other one is logged as `task_failed` with `name`, and `work`
    is called again a second later: what it keeps between two calls has to be fit for that.
    """
    return asyncio.create_task(_keep_at(work, name, clock, log))


async def _keep_at(work: Callable[[], Awaitable[None]], name: str, clock: Timekeeper, log: Log) -> None:
    while True:
        try:
            await work()
            return
        except Exception as error:  # noqa: BLE001 - nobody awaits this task: what ends it would end unseen
            log(
                "task_failed",
                task=name,
                error=shorten(f"{type(error).__name__}: {error}"),
                where=place_of(error.__traceback__),
            )
        await clock.sleep(AGAIN_MS)


class PromptFuture(asyncio.Future[None]):
    """Light tasks that await it go on within `resume`, not behind all that the loop has in line by then."""

    def __init__(self, *, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self.steps: list[Callable[[], None]] = []
        self.add_done_callback(PromptFuture._take_steps)  # where it was cancelled

    def resume(self) -> None:
        """Ends it, where it has not ended; to be called by the loop itself."""
        if not self.done():
            self.set_result(None)
        self._take_steps()

    def _take_steps(self) -> None:
        steps, self.steps = self.steps, []
        for step in steps:
            step()


class LightTask:
    """One running coroutine: the same waits and the same cancelling as a task, at a fifth of the price.

    An execution runs two, its ring and its call. It may await futures and tasks; it has no
    `asyncio.current_task`. So `asyncio.timeout` does not work in it: code that needs that is awaited as a
    task. `label` is what `on_end` of its light tasks gets.
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
            if type(awaited) is PromptFuture:
                awaited.steps.append(self.step)
                return
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
        task = LightTask(coroutine, self, label)  # not by `hold`: a call less for each ring
        self._tasks.add(task)
        task.step()
        return task

    def hold(self, coroutine: Coroutine[Any, Any, object], label: str = "") -> LightTask:
        """The same, but it runs nothing: whoever has noted it calls its first `step`."""
        task = LightTask(coroutine, self, label)
        self._tasks.add(task)
        return task

    def start_soon(self, coroutine: Coroutine[Any, Any, object], label: str = "") -> LightTask:
        """The same from the next round of the loop on: nothing of it runs inside of what goes on now."""
        task = self.hold(coroutine, label)
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


STARTING = (Created, Updated, Triggered, Backfilled, Activated, Released)
"""The events that a draining host refuses, because they start something."""

STOPPING = "this node is stopping and starts nothing any more; ask again in a moment"
POLL_MS = 20
LEAST_PATIENCE_MS = 5 * SECOND
"""How long a node that stops waits for its history at least, also where its drain is over."""


class Tasks:
    """What was started here and has not ended yet."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Runs `work` as a task of its own, whoever stops waiting for it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def wait_for_all(self) -> None:
        """Returns when those that run now have ended, however they end."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def cancel(self) -> None:
        """Ends them all where they stand."""
        for task in self._tasks:
            task.cancel()
        await self.wait_for_all()


async def wait_for_rest(is_at_work: Callable[[], bool], *, clock: Timekeeper, end: int) -> None:
    """Returns when nothing is at work any more, or at `end` (steady ms)."""
    while is_at_work() and clock.now().steady < end:
        await clock.sleep(POLL_MS)


async def ends_within(pause: int, task: "asyncio.Task[Any]", *, clock: Timekeeper) -> bool:
    """Whether `task` has ended `pause` ms from now; it goes on in any case, also where this is cancelled."""
    late: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    alarm = clock.call_after(pause, late.cancel)
    try:
        await asyncio.wait({task, late}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        alarm.cancel()
    return task.done()


async def close_history(history: History, log: Log, *, clock: Timekeeper, until: int) -> None:
    """Flushes the history as far as possible, then closes it. Never raises: the log says what failed.

    A history that hangs is left at `until` (steady ms), but not within the first five seconds. What it has
    not written of durable turns is in the store, and written after the next start.
    """
    patience = max(until - clock.now().steady, LEAST_PATIENCE_MS)
    closing = asyncio.create_task(_flush_and_close(history))
    if not await ends_within(patience, closing, clock=clock):
        closing.cancel()
        await asyncio.wait({closing})
        log("history_not_flushed", error=f"nothing was written in {patience} ms")
    elif error := closing.result():
        log("history_not_flushed", error=error)


async def _flush_and_close(history: History) -> str:
    """What has kept the history from writing; empty: all is written."""
    failure = ""
    try:
        await history.flush()
    except StoreError as error:
        failure = str(error)
    try:
        await history.close()
    except StoreError as error:
        failure = failure or str(error)
    return failure
