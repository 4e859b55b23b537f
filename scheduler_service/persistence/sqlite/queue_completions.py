"""The table `completions`: how leases were completed, so that a repetition is recognised.

An accepted completion may be repeated, after a crash too (SPEC section 13), so it is kept, bounded by age and
by number.
"""

import sqlite3

from scheduler_service.domain.parts import PartEnd, digest_said
from scheduler_service.persistence.common.writes import COMPLETION_KEPT_MS

PRUNE_BATCH_SIZE = 10
"""How many old completions may be deleted with each new one, so that no completion pays for many others."""

_DROP_OLDEST = (
    "DELETE FROM completions WHERE place IN (SELECT place FROM completions ORDER BY place LIMIT ?) "
    "AND (at < ? OR place <= (SELECT max(place) FROM completions) - ?)"
)


def keep_completion(connection: sqlite3.Connection, lease: str, end: PartEnd, limit: int) -> None:
    """Keeps how a lease was completed; at most about `limit` of them, for a day."""
    row = (lease, digest_said(end), end.at)
    connection.execute("INSERT OR REPLACE INTO completions (lease, digest, at) VALUES (?, ?, ?)", row)
    connection.execute(_DROP_OLDEST, (PRUNE_BATCH_SIZE, end.at - COMPLETION_KEPT_MS, limit))


def is_known_completion(connection: sqlite3.Connection, lease: str, end: PartEnd) -> bool:
    """Whether the lease was completed with exactly this end."""
    text = "SELECT digest FROM completions WHERE lease = ?"
    row = connection.execute(text, (lease,)).fetchone()
    return row is not None and row[0] == digest_said(end)


def forget_completion(connection: sqlite3.Connection, part_id: str) -> None:
    """Forgets how an ended part was completed."""
    text = "DELETE FROM completions WHERE lease = (SELECT lease FROM parts WHERE part_id = ? AND state = 2)"
    connection.execute(text, (part_id,))
