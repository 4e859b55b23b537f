"""Limits the work of an evaluation."""

import msgspec

from scheduler_service.language.iregexp import CompiledRegexp


class Exhausted(Exception):
    """The budget is used up; `jsonpath.evaluate` turns it into a value."""


class Budget(msgspec.Struct):
    """The values that an evaluation may still visit; `patterns` are those compiled so far."""

    left: int
    patterns: dict[tuple[str, bool], CompiledRegexp] = {}

    def spend(self, nodes: int) -> None:
        """Uses up `nodes`. Raises Exhausted when none are left."""
        self.left -= nodes
        if self.left < 0:
            raise Exhausted
