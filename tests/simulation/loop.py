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
import warnings
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
WIRE_SECONDS = 0.0002
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

    def soon(self, call: Callable[..., object], *args: Any, after: float = 0.0) -> None:
        """Calls `call` in the process, `after` so many seconds."""
        self.loop.call_later(after, call, *args, context=self._context)

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
    """A loop of asyncio in given time. What others leave to threads is done at once."""

    def __init__(self) -> None:
        self._moment = 0.0
        self._ticks = 0
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

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], *, sock: "Wire"
    ) -> tuple["Wire", Any]:
        """One end of a wire, in the hands of a protocol."""
        protocol = protocol_factory()
        sock.connect(protocol)
        return sock, protocol

    def tick(self) -> int:
        """Another number each time: the order of what happens at one moment."""
        self._ticks += 1
        return self._ticks

    def leap(self, pause: float | None) -> None:
        """Nothing is ready for `pause` seconds (None: for ever): lets time pass."""
        if pause is None:
            raise Standstill("nothing is planned any more")
        self._moment += pause


class Wire(asyncio.Transport):
    """One end of a connection between two processes: each hears of the other's death."""

    other: "Wire"

    def __init__(self, process: SimulatedProcess) -> None:
        super().__init__()
        self._process = process
        self._protocol: asyncio.Protocol | None = None
        self._arrived: deque[bytes] = deque()
        self._is_cut = False
        process.tell_of_death(self.close)

    @classmethod
    def between(cls, one: SimulatedProcess, another: SimulatedProcess) -> tuple["Wire", "Wire"]:
        """Both ends."""
        ours, theirs = cls(one), cls(another)
        ours.other, theirs.other = theirs, ours
        return ours, theirs

    def connect(self, protocol: asyncio.Protocol) -> None:
        """Takes what has arrived, and what will."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._process.soon(self._receive)

    def write(self, data: Any) -> None:
        """Reaches the other end, unless its process dies before."""
        self.other.arrive(bytes(data))

    def close(self) -> None:
        """Both ends hear of it, after what was written."""
        self.end()
        self.other.end()

    def arrive(self, data: bytes) -> None:
        """What the other end has written is taken in a moment."""
        self._arrived.append(data)
        self._process.soon(self._receive, after=WIRE_SECONDS)

    def end(self) -> None:
        """The protocol hears in a moment that it is cut."""
        self._process.soon(self._lose, after=2 * WIRE_SECONDS)

    def _receive(self) -> None:
        while self._protocol is not None and self._arrived and not self._is_cut:
            self._protocol.data_received(self._arrived.popleft())

    def _lose(self) -> None:
        if self._protocol is not None and not self._is_cut:
            self._is_cut = True
            self._protocol.connection_lost(None)


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
