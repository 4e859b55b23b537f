"""Tells the time."""

from typing import Protocol

from scheduler_service.domain.moments import Now


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> Now:
        """The present moment on both time lines. Never raises."""
