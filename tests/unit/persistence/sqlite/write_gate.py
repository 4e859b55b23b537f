"""Holds the writer of a store in the middle of a group."""

import threading

from scheduler_service.persistence.common.fault_points import FaultPoint


class Gate:
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
