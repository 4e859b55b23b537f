"""An event loop whose time is given, and processes on it that stand still or die where they are.

Nothing here sleeps: where no callback is ready, time leaps to the next timer. So what runs on the loop is the
same in each run, as long as it takes its chances from a seed.

A callback belongs to the process in whose context it was planned (`contextvars`), and so does whatever it
begins: tasks, timers, callbacks of futures. A process that is dead runs none of its callbacks any more, which
is what `kill -9` does; one that is frozen keeps them until it goes on, late and all at once.
"""

import asyncio
import contextvars
import gc
import selectors
import sys
import threading
import warnings
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
FOREIGN_PATIENCE_SECONDS = 3.0
_PROCESS: contextvars.ContextVar["SimulatedProcess | None"] = contextvars.ContextVar("process", default=None)


class Standstill(Exception):
    """Nothing is ready and nothing is planned, and the run is not over."""


class SimulatedProcess:
    """What dies or stands still together. Begin its work with `start`; the rest inherits it."""

    def __init__(self, loop: "VirtualLoop", name: str) -> None:
        self.name = name
        self.is_dead = False
        self.loop = loop
        self._parked: deque[_Callback] | None = None
        self._context = contextvars.copy_context()
        self._context.run(_PROCESS.set, self)
        self._on_death: list[Callable[[], object]] = []

    def start(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Runs `work` as a task of the process."""
        return self.loop.create_task(work, context=self._context)

    @property
    def is_frozen(self) -> bool:
        """Whether it stands still."""
        return self._parked is not None

    def kill(self) -> None:
        """Nothing of it runs any more; who waits for it hears of its end, as of a connection's."""
        self.is_dead = True
        self._parked = None
        hearing, self._on_death = self._on_death, []
        for call in hearing:
            call()

    def freeze(self) -> None:
        """Nothing of it runs until `thaw`."""
        if not self.is_dead and self._parked is None:
            self._parked = deque()

    def thaw(self) -> None:
        """It goes on with all that came due meanwhile, in the order in which it came."""
        parked, self._parked = self._parked, None
        for callback in parked or ():
            callback.again(self.loop)

    def tell_of_death(self, call: Callable[[], object]) -> None:
        """Calls `call` when the process is killed; at once where it is dead."""
        if self.is_dead:
            call()
        else:
            self._on_death.append(call)

    def park(self, callback: "_Callback") -> bool:
        """Whether `callback` must not run now."""
        if self._parked is not None:
            self._parked.append(callback)
        return self.is_dead or self._parked is not None


class _Callback:
    """A callback of a process."""

    __slots__ = ("_args", "_call", "_context", "_process", "handle")

    def __init__(
        self,
        process: SimulatedProcess,
        call: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context,
    ) -> None:
        self._process = process
        self._call = call
        self._args = args
        self._context = context
        self.handle: asyncio.Handle | None = None

    def __call__(self) -> None:
        if self.handle is not None and self.handle.cancelled():
            return
        if not self._process.park(self):
            self._call(*self._args)

    def again(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.call_soon(self, context=self._context)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop of asyncio in given time. What others leave to threads is done at once, or waited for."""

    def __init__(self) -> None:
        self._moment = 0.0
        self._foreign = 0
        self._ticks = 0
        self._line = asyncio.Lock()
        self._answers: SimpleQueue[tuple[Callable[..., object], tuple[Any, ...]]] = SimpleQueue()
        self._own_thread = threading.get_ident()
        super().__init__(_Leap(self))

    def time(self) -> float:
        """Seconds since the world began."""
        return self._moment

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """As in asyncio; for a process only while it runs."""
        context = contextvars.copy_context() if context is None else context
        process = context.get(_PROCESS)
        if process is None or isinstance(callback, _Callback):
            return super().call_soon(callback, *args, context=context)
        owned = _Callback(process, callback, args, context)
        owned.handle = super().call_soon(owned, context=context)
        return owned.handle

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """As in asyncio; for a process only while it runs."""
        context = contextvars.copy_context() if context is None else context
        process = context.get(_PROCESS)
        if process is None:
            return super().call_at(when, callback, *args, context=context)
        owned = _Callback(process, callback, args, context)
        timer = super().call_at(when, owned, context=context)
        owned.handle = timer
        return timer

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """What another thread says is taken when nothing else is ready: so its order is always the same."""
        if threading.get_ident() == self._own_thread:
            return self.call_soon(callback, *args, context=context)
        self._answers.put((callback, args))
        return asyncio.Handle(callback, args, self)

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> "asyncio.Future[T]":
        """Does the work at once, in this thread."""
        over: asyncio.Future[T] = self.create_future()
        try:
            over.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it belongs to who awaits the future
            over.set_exception(error)
        return over

    def tick(self) -> int:
        """Another number each time: the order of what happens at one moment."""
        self._ticks += 1
        return self._ticks

    async def foreign(self, work: Awaitable[T]) -> T:
        """What `work` gives, for which another thread is needed: no time passes meanwhile.

        One work at a time, in the order of the calls. It comes to its end whoever has asked for it.
        """
        return await outside(lambda: self.create_task(self._work(work)))

    async def _work(self, work: Awaitable[T]) -> T:
        async with self._line:
            self._foreign += 1
            try:
                return await work
            finally:
                self._foreign -= 1

    def leap(self, pause: float | None) -> None:
        """Nothing is ready for `pause` seconds (None: for ever): waits for a thread, or lets time pass."""
        if self._foreign:
            try:
                callback, args = self._answers.get(timeout=FOREIGN_PATIENCE_SECONDS)
            except Empty:
                raise Standstill("a thread gives no answer") from None
            self.call_soon(callback, *args)
        elif pause is None:
            raise Standstill("nothing is planned any more")
        else:
            self._moment += pause


class _Leap(selectors.SelectSelector):
    """Instead of a wait for sockets, of which there are none."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        """Returns at once."""
        if timeout is None or timeout > 0:
            self._loop.leap(timeout)
        return []


def outside(call: Callable[[], T]) -> T:
    """What `call` returns; what it begins belongs to no process."""
    return contextvars.Context().run(call)


def set_once(future: "asyncio.Future[T]", value: T) -> None:
    """What is waited for has come, unless it has already, or nobody waits any more."""
    if not future.done():
        future.set_result(value)


def run_virtually(work: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    """What `work` gives on a loop of its own. Whatever it leaves behind is dropped without a word."""
    with _quietly():
        loop = VirtualLoop()
        asyncio.set_event_loop(None)
        try:
            return loop.run_until_complete(work(loop))
        finally:
            loop.set_exception_handler(lambda *_: None)
            loop.close()


@contextmanager
def _quietly() -> Iterator[None]:
    """No collection of garbage in between, and none of the complaints about what dead processes left."""
    hook = sys.unraisablehook
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        sys.unraisablehook = lambda _: None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gc.collect(1)
        sys.unraisablehook = hook
        if was_on:
            gc.enable()
