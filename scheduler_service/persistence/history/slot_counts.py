"""Adds up executions that have ended by slots of five minutes, for series (SPEC section 10)."""

from collections import Counter
from collections.abc import Iterable

from scheduler_service.domain.moments import MINUTE
from scheduler_service.persistence.history.buckets import NONE
from scheduler_service.persistence.sql.expressions import Row

# Shorter ones would make the read of a day slow: each has a row of each figure that occurs.
SLOT = 5 * MINUTE
# For so many days, beside today, the figures of slots are kept.
SLOT_DAYS = 8
LATENESS = "lateness"
DURATION = "duration"

# Of executions: the slot (counted from 1970) of their planned moment, their tenant, state and failure type,
# the buckets of their lateness and their duration.
Seen = tuple[int, str, str, str, int, int]


def count_slots(seen: Iterable[tuple[Seen, int]]) -> list[Row]:
    """The rows of `statistic_slots` that executions add, in the order of their key; how many of each kind.

    Each figure is counted by itself: combinations would be many rows, and a read of a day of them slow.
    """
    found: Counter[tuple[int, str, str, int]] = Counter()
    for (slot, tenant, state, _, lateness, duration), count in seen:
        found[slot, tenant, state, 0] += count
        if duration != NONE:
            found[slot, tenant, DURATION, duration] += count
        if lateness != NONE:
            found[slot, tenant, LATENESS, lateness] += count
    return [(*key, count) for key, count in sorted(found.items())]
