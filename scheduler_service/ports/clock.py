"""The time, and the pauses that are measured by it."""

from collections.abc import Callable
from typing import Protocol

from scheduler_service.domain.moments import Now


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> Now:
        """The present moment on both time lines. Never raises."""


class Alarm(Protocol):
    """A call that is still to come."""

    def cancel(self) -> None:
        """The call will not come; does nothing when it has come."""


class Timekeeper(Clock, Protocol):
    """A clock by which one can also wait."""

    def call_after(self, pause: int, call: Callable[[], object]) -> Alarm:
        """Calls `call` once, `pause` ms from now on the steady line."""

    async def sleep(self, pause: int) -> None:
        """Returns `pause` ms from now on the steady line."""

    async def follow(self) -> bool:
        """Takes over a step of the wall clock since the last call; True when there was one."""
