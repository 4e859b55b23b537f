"""The jobs that are due and do not ring yet, in the two queues from which they ring by turns."""

from collections import deque


class DueJobs:
    """`overdue` are ids; `punctual` have the wall moment as well, where the ring comes ahead of it."""

    def __init__(self) -> None:
        self.overdue: deque[str] = deque()
        self.punctual: deque[tuple[str, int | None]] = deque()
        self._late_turn = False

    def __len__(self) -> int:
        return len(self.overdue) + len(self.punctual)

    def pick(self) -> tuple[str, int | None] | None:
        """The next one: a backlog does not delay punctual jobs, nor the other way round."""
        self._late_turn = not self._late_turn
        if self.overdue and (self._late_turn or not self.punctual):
            return self.overdue.popleft(), None
        return self.punctual.popleft() if self.punctual else None
