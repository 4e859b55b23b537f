"""The descriptors for calls, shared fairly among the origins that they go to."""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from scheduler_service.ports.log import Log
from scheduler_service.telemetry.log_summaries import Tally

# Closed for others and not gone yet; each of them takes a round of the loop.
_MOST_CLOSING = 16


class RouteShare(Protocol):
    """A route; `held` counts its connections that carry a call or are being opened."""

    @property
    def held(self) -> int:
        """Changes as calls begin and end."""


H = TypeVar("H", bound=RouteShare)


class DescriptorBudget(Generic[H]):
    """How many of `total` descriptors are in use, and who may take another one.

    A route opens a connection while it holds fewer than there are left for all others: one alone takes half,
    and of n greedy ones each the nth part of what n + 1 would, so that a new one always finds some, however
    slow the others are. Idle connections, counted by `count_idle`, are as good as left: where nothing is
    left, `close_idle` closes the one that is idle for longest. Whom `admits` refuses is remembered in
    `blocked`; its calls wait in line, and the one that holds least comes `next`.
    """

    def __init__(
        self,
        total: int,
        *,
        count_idle: Callable[[], int],
        close_idle: Callable[[], object | None],
        log: Log,
    ) -> None:
        self.total = total
        self.used = 0
        self.blocked: dict[H, None] = {}
        self.delays = Tally("calls_delayed", log=log)
        self.exhausted = Tally("descriptors_exhausted", log=log)
        self._count_idle = count_idle
        self._close_idle = close_idle
        self._closing: set[object] = set()

    def admits(self, one: H) -> bool:
        """Whether it may open a connection now; if not, it is blocked."""
        left = self.total - self.used
        held = one.held
        # What is idle is counted last: the calls that use such a connection pay nothing for it.
        if held < left or held < left + len(self._closing) + self._count_idle():
            if left > 0:
                return True
            self.close_idle()
        self.blocked[one] = None
        return False

    def close_idle(self) -> None:
        """Closes the connection that is idle for longest, unless enough are being closed."""
        if len(self._closing) < _MOST_CLOSING:
            closed = self._close_idle()
            if closed is not None:
                self._closing.add(closed)

    def note_exhausted(self, what: str) -> None:
        """Counts that there was no descriptor for `what`, and closes what need not be open."""
        self.exhausted.count(what, limit=self.total)
        self.close_idle()

    def forget(self, connection: object) -> None:
        """Notes that a connection is closed."""
        self._closing.discard(connection)

    def next(self) -> H | None:
        """The blocked one that holds least, where it may open a connection; it is no longer blocked."""
        if not self.blocked:
            return None
        neediest = min(self.blocked, key=_held)
        if not self.admits(neediest):
            return None
        del self.blocked[neediest]
        return neediest

    def owes(self, one: RouteShare, connection: object) -> bool:
        """Whether `connection`, now free, is to be closed by the caller for a blocked one that holds less."""
        if len(self._closing) >= _MOST_CLOSING or one.held <= min(map(_held, self.blocked)) + 1:
            return False
        self._closing.add(connection)
        return True

    def close(self) -> None:
        """Writes what of its lines is not written yet."""
        self.delays.flush()
        self.exhausted.flush()


def _held(one: RouteShare) -> int:
    return one.held
