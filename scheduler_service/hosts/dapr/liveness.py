"""Whether a node counts as alive, and which actors daprd has active in this process."""

from scheduler_service.domain.moments import SECOND
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.cluster import Node

HEARTBEAT_INTERVAL_MS = 3 * SECOND
OFFLINE_AFTER_MS = 10 * SECOND
# A node gives itself up a second before the others may: its clock is not quite theirs.
OWN_LAPSE_AFTER_MS = OFFLINE_AFTER_MS - HEARTBEAT_INTERVAL_MS // 3

RUNNING, DRAINING, CUT_OFF, OFF = "running", "draining", "cut off", "offline"
GONE = (OFF, CUT_OFF)


def is_alive(node: Node, now: int) -> bool:
    """Whether a node counts as alive at `now` (steady ms); one without its sidecar reaches no job."""
    return node.state not in GONE and now - node.seen_at < OFFLINE_AFTER_MS


class Liveness:
    """Numbers the periods in which no other node can have counted this one as offline.

    A period lasts from heartbeat to heartbeat, and ends when the latest is 9 s old: the process stood still,
    was starved, or the database was away. After it others may have gone on with what was under way here.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._heartbeat_at: int | None = None
        self._period = 0

    @property
    def period(self) -> int:
        """The number of the present period, or, between two, of the one that has ended."""
        return self._period

    @property
    def is_current(self) -> bool:
        """Whether the others count this node as alive: its latest heartbeat is fresh."""
        return (
            self._heartbeat_at is not None
            and self._clock.now().steady - self._heartbeat_at < OWN_LAPSE_AFTER_MS
        )

    def lasts(self, period: int) -> bool:
        """Whether `period` goes on: no other node can have taken over what was begun in it."""
        return period == self._period and self.is_current

    def extend(self, heartbeat_at: int) -> None:
        """A heartbeat as of `heartbeat_at` (steady ms) was written; after a break a new period begins."""
        if not self.is_current:
            self._period += 1
        self._heartbeat_at = heartbeat_at

    def end(self) -> None:
        """This node reports itself as gone."""
        self._heartbeat_at = None


class ActiveActors:
    """An actor is active here from a turn that daprd delivered until daprd takes the actor away.

    daprd takes many away at once, and holds all turns and states meanwhile. So after the first sign of that
    none counts as active until daprd delivers a turn again: then the move is over.
    """

    def __init__(self, *, liveness: Liveness) -> None:
        self._liveness = liveness
        self._job_ids: set[str] = set()
        self._is_sure = self._is_closed = False

    def __contains__(self, job_id: object) -> bool:
        """Whether a turn on this job may be taken here without asking daprd."""
        return self._is_sure and job_id in self._job_ids and self._liveness.is_current

    def __len__(self) -> int:
        return len(self._job_ids)

    def compare(self, count: int, before: int) -> None:
        """daprd has said that it has `count` active, at a moment since when `before` were known here.

        Fewer than that: it has let some go without a word.
        """
        if count < min(before, len(self._job_ids)):
            self.clear()

    def add(self, job_id: str) -> None:
        """daprd has delivered a turn here."""
        self._job_ids.add(job_id)
        self._is_sure = not self._is_closed

    def remove(self, job_id: str) -> None:
        """daprd takes the actor away; others may follow."""
        self._job_ids.discard(job_id)
        self._is_sure = False

    def clear(self) -> None:
        """daprd may have let all go without a word: it started anew, or took this process for ill."""
        self._job_ids.clear()
        self._is_sure = False

    def close(self) -> None:
        """This node stops: none counts as active any more."""
        self._is_closed = True
        self.clear()
