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

# Of an execution: the slot (counted from 1970) of its planned moment, its tenant and state, the buckets of
# its lateness and its duration.
Seen = tuple[int, str, str, int, int]


def count_slots(seen: Iterable[Seen]) -> list[Row]:
    """The rows of `statistic_slots` that executions add, in the order of their key.

    Each figure is counted by itself: combinations would be many rows, and a read of a day of them slow.
    """
    found: Counter[tuple[int, str, str, int]] = Counter()
    for (slot, tenant, state, lateness, duration), count in Counter(seen).items():
        found[slot, tenant, state, 0] += count
        if duration != NONE:
            found[slot, tenant, DURATION, duration] += count
        if lateness != NONE:
            found[slot, tenant, LATENESS, lateness] += count
    return [(*key, count) for key, count in sorted(found.items())]
