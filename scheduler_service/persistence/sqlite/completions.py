"""Which leases were completed, and how: an accepted completion may be repeated, after a crash too
(SPEC section 13).

Runs in the writer's transaction, in which the part ends. Bounded by age and by number.
"""

import sqlite3

from scheduler_service.domain.moments import HOUR
from scheduler_service.domain.parts import PartEnd, digest_said

KEPT = 24 * HOUR
MOST_KEPT = 100_000
AT_ONCE = 10
"""How many of the oldest may go with each new one, so that no completion pays for a heap of others."""

COMPLETIONS = (
    "CREATE TABLE completions "
    "(place INTEGER PRIMARY KEY, lease TEXT NOT NULL UNIQUE, digest BLOB NOT NULL, at INTEGER NOT NULL)",
)

_DROP_OLDEST = (
    "DELETE FROM completions WHERE place IN (SELECT place FROM completions ORDER BY place LIMIT ?) "
    "AND (at < ? OR place <= (SELECT max(place) FROM completions) - ?)"
)


def keep_completion(connection: sqlite3.Connection, lease: str, end: PartEnd, most: int) -> None:
    """The lease was completed so; `end.at` is the moment (wall ms). The newest `most` of a day are kept."""
    row = (lease, digest_said(end), end.at)
    connection.execute("INSERT OR REPLACE INTO completions (lease, digest, at) VALUES (?, ?, ?)", row)
    connection.execute(_DROP_OLDEST, (AT_ONCE, end.at - KEPT, most))


def is_known(connection: sqlite3.Connection, lease: str, end: PartEnd) -> bool:
    """Whether the lease was completed just so."""
    text = "SELECT digest FROM completions WHERE lease = ?"
    row = connection.execute(text, (lease,)).fetchone()
    return row is not None and row[0] == digest_said(end)
