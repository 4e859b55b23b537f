"""Which actors daprd has active in this process, as far as it has said so."""

from scheduler_service.hosts.dapr.liveness import Liveness


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
