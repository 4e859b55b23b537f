"""How much work an evaluation may still do."""

import msgspec

from scheduler_service.language.iregexp import Pattern


class Exhausted(Exception):
    """The budget is spent; `jsonpath.evaluate` turns it into a value."""


class Budget(msgspec.Struct):
    """Counts down the values that an evaluation visits; `patterns` are those it has met so far."""

    left: int
    patterns: dict[tuple[str, bool], Pattern] = {}

    def spend(self, nodes: int) -> None:
        """Takes `nodes` away. Raises Exhausted when there are no more."""
        self.left -= nodes
        if self.left < 0:
            raise Exhausted
