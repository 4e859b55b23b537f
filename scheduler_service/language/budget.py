"""How much work an evaluation may still do."""

from collections.abc import Callable

Matcher = Callable[[str], bool]
"""Whether a text matches a pattern."""


class Exhausted(Exception):
    """The budget is spent; `jsonpath.evaluate` turns it into a value."""


class Budget:
    """Counts down the values that an evaluation visits; `matchers` are the patterns it has met so far."""

    __slots__ = ("left", "matchers")

    def __init__(self, nodes: int) -> None:
        self.left = nodes
        self.matchers: dict[tuple[str, bool], Matcher] = {}

    def spend(self, nodes: int) -> None:
        """Takes `nodes` away. Raises Exhausted when there are no more."""
        self.left -= nodes
        if self.left < 0:
            raise Exhausted
