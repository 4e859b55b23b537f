"""Remembers whether the history can be written."""

from collections.abc import Sequence


class HistoryWatch:
    """Remembers whether the history can be written."""

    is_troubled = False

    def note(self, trouble: str | None) -> None:
        """A try to write failed; None: it succeeded again. Any thread may call it."""
        self.is_troubled = trouble is not None

    def lacks(self) -> Sequence[str]:
        """`history`, while it cannot be written."""
        return ["history"] if self.is_troubled else []
