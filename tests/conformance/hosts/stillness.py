"""A process that stands still while the others go on: its clock rings late, its sidecar answers late."""

import asyncio
from collections.abc import Callable

from scheduler_service.domain.moments import Now
from scheduler_service.ports.clock import Alarm
from tests.manual_clock import ManualClock


class Stillness:
    """Whether one process of a cluster stands still, and what waits for it to go on."""

    def __init__(self) -> None:
        self._waiting: list[Call] = []
        self._gate: asyncio.Event | None = None

    @property
    def is_on(self) -> bool:
        """Whether nothing goes on there."""
        return self._gate is not None

    def begin(self) -> None:
        """Nothing goes on in the process from now on."""
        self._gate = asyncio.Event()

    def end(self) -> None:
        """It goes on: whatever came due meanwhile comes at once."""
        gate, self._gate = self._gate, None
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()
        if gate is not None:
            gate.set()

    async def over(self) -> None:
        """Returns when the process goes on."""
        if self._gate is not None:
            await self._gate.wait()

    def make(self, call: "Call") -> None:
        """Makes a call that has come due, or keeps it."""
        if self._gate is None:
            call()
        else:
            self._waiting.append(call)


class Call:
    """A planned call that can be taken back, even where it is late."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call: Callable[[], object] | None = call
        self.alarm: Alarm | None = None

    def __call__(self) -> None:
        if self._call is not None:
            self._call()

    def cancel(self) -> None:
        self._call = None
        if self.alarm is not None:
            self.alarm.cancel()


class ProcessClock:
    """The cluster's clock as one process sees it."""

    def __init__(self, clock: ManualClock, stillness: Stillness) -> None:
        self._clock = clock
        self._stillness = stillness

    def now(self) -> Now:
        """The moment to which the clock was moved."""
        return self._clock.now()

    def call_after(self, pause: int, call: Callable[[], object]) -> Alarm:
        """Calls `call` when the clock is advanced over its moment, or when the process goes on after it."""
        planned = Call(call)
        planned.alarm = self._clock.call_after(pause, lambda: self._stillness.make(planned))
        return planned

    async def sleep(self, pause: int) -> None:
        """Returns when the clock has been advanced by `pause` ms, and the process is not still."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        planned = self.call_after(pause, lambda: over.done() or over.set_result(None))
        try:
            await over
        finally:
            planned.cancel()

    async def follow(self) -> bool:
        """True once after each step of the wall clock."""
        return await self._clock.follow()
