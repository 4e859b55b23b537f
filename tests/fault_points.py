"""What happens at the fault points of a store, by the word of a test."""

import threading

from scheduler_service.persistence.common.fault_points import FaultPoint


class EachPoint:
    """Calls `at` before and after each point, as `before state.commit`; nothing happens there by itself."""

    def before(self, point: str) -> None:
        self.at(f"before {point}")

    def after(self, point: str) -> None:
        self.at(f"after {point}")

    def at(self, place: str) -> None:
        """What happens there."""


class Breaking(EachPoint):
    """Raises `error` once, when `place` is passed for the `passage`th time; an empty place: not yet."""

    def __init__(self, place: str, error: BaseException, *, passage: int = 1) -> None:
        self.place = place
        self._error = error
        self._left = passage

    @property
    def has_broken(self) -> bool:
        """Whether it has raised."""
        return self._left <= 0

    def at(self, place: str) -> None:
        if place == self.place:
            self._left -= 1
            if self._left == 0:
                raise self._error


class WriteGate:
    """Holds the writer before its commit until it is let through."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()
        self.passed: list[str] = []

    def before(self, point: str) -> None:
        if point == FaultPoint.COMMIT:
            self.reached.set()
            assert self.opened.wait(20)

    def after(self, point: str) -> None:
        self.passed.append(point)
