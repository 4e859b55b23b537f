"""How much of its requests one connection has in memory, as they came."""


class HeldInput:
    """The bytes of all requests of a connection that are not answered yet, to a piece of parsing exactly."""

    def __init__(self) -> None:
        self._taken = self._released = 0
        # What was taken when each whole request that is not answered yet had come to its end.
        self._ends: list[int] = []  # of 16 at most: a deque takes ten times as much

    @property
    def held(self) -> int:
        """The bytes."""
        return self._taken - self._released

    @property
    def has_whole_request(self) -> bool:
        """Whether a request that has come to its end is not answered yet."""
        return bool(self._ends)

    def take(self, size: int) -> None:
        """So many bytes are to be parsed."""
        self._taken += size

    def leave_out(self, size: int) -> None:
        """So many of them are not to be counted."""
        self._taken -= size

    def end(self, *, is_answered: bool) -> None:
        """A request has come to its end; `is_answered`: after its answer."""
        if is_answered:
            self._released = self._taken
        else:
            self._ends.append(self._taken)

    def answer(self) -> None:
        """The first of the requests is answered."""
        if self._ends:
            self._released = self._ends.pop(0)
