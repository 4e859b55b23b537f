"""Whether a node is taken for alive, and has been without a break since something was begun."""

from scheduler_service.domain.moments import SECOND
from scheduler_service.ports.clock import Clock

BEAT = 3 * SECOND
OFFLINE = 10 * SECOND
# A node gives itself up a little before the others may: their clocks are not quite its own.
LAPSE = OFFLINE - BEAT // 3


class Liveness:
    """Numbers the stretches in which no other node can have taken this one for dead.

    A stretch lasts from heartbeat to heartbeat, and ends when one is 9 s old: the process stood still, was
    starved, or the database was away. After it others may have gone on with whatever was under way here.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._beaten: int | None = None
        self._number = 0

    @property
    def number(self) -> int:
        """The present stretch, or, between two, the one that has ended."""
        return self._number

    @property
    def is_current(self) -> bool:
        """Whether the others take this node for alive: its last heartbeat is fresh."""
        return self._beaten is not None and self._clock.now().steady - self._beaten < LAPSE

    def lasts(self, number: int) -> bool:
        """Whether the stretch `number` goes on: nobody can have taken over what was begun in it."""
        return number == self._number and self.is_current

    def extend(self, beaten: int) -> None:
        """A heartbeat of the moment `beaten` (steady ms) was written; after a break a new stretch begins."""
        if not self.is_current:
            self._number += 1
        self._beaten = beaten

    def end(self) -> None:
        """This node tells the others that it is gone."""
        self._beaten = None
