"""Which free parts of a queue an instance may have, best first (`queue_tables`).

Part of the writes of `queue_parts`, in their transaction.
"""

import sqlite3
from typing import Any

from scheduler_service.domain.leases import Claim
from scheduler_service.domain.parts import PartName

_FREE_FOR = (
    "FROM parts INDEXED BY parts_free WHERE state = 0 AND tenant = ?1 AND queue = ?2 AND free_at <= ?3 "
    "AND (expires IS NULL OR expires > ?3) "
    "AND (named = 0 OR EXISTS (SELECT 1 FROM json_each(specific) WHERE value = ?4)) "
    "AND (total = 1 OR NOT EXISTS (SELECT 1 FROM parts AS other WHERE other.uid = parts.uid "
    "AND other.execute_number = parts.execute_number AND other.request_counts = parts.request_counts "
    "AND other.step = parts.step AND other.instance = ?4 AND other.state IN (1, 2))) "
    "ORDER BY priority DESC, named DESC, created_at, part_id"
)
_STEP = "SELECT total, uid, execute_number, request_counts, step"
_FIND_FREE = f"{_STEP}, part_id, options, content, serial, changes {_FREE_FOR}"
_CONTENT = 7
"""The place of `content` in it, whose bytes count for the room of the claim."""
_COUNT_HELD = (
    "SELECT count(*) FROM parts WHERE state = 1 AND tenant = ? AND queue = ? AND instance = ? AND until > ?"
)
_FIRST_CLAIM = (
    "SELECT min(claimed_at) FROM parts "
    "WHERE uid = ? AND execute_number = ? AND request_counts = ? AND step = ?"
)


def read_first_claim(connection: sqlite3.Connection, name: PartName) -> int:
    """The first claim of any part of a step that has one."""
    asked = (name.uid, name.execute_number, name.request_counts, name.step)
    first: int = connection.execute(_FIRST_CLAIM, asked).fetchone()[0]
    return first


def choose_parts(connection: sqlite3.Connection, claim: Claim) -> list[tuple[Any, ...]]:
    """Rows of part_id, options, content, serial and changes, best first; of each step one part.

    No more than the instance has room for.
    """
    most = _free_capacity(connection, claim)
    chosen: list[tuple[Any, ...]] = []
    size = 0
    steps: set[tuple[Any, ...]] = set()
    found = connection.execute(_FIND_FREE, (claim.tenant, claim.queue, claim.now, claim.instance))
    while len(chosen) < most and (row := found.fetchone()) is not None:
        total, step = row[0], row[1:5]
        if total == 1 or step not in steps:
            size += len(row[_CONTENT])
            if chosen and size > claim.room:
                break
            steps.add(step)
            chosen.append(row[5:])
    found.close()  # a cursor that stays open would read while rows are written
    return chosen


def _free_capacity(connection: sqlite3.Connection, claim: Claim) -> int:
    """How many more parts the instance may have; withdrawn ones do not count."""
    if claim.capacity is None:
        return len(claim.leases)
    return min(len(claim.leases), claim.capacity - _count_held(connection, claim))


def _count_held(connection: sqlite3.Connection, claim: Claim) -> int:
    asked = (claim.tenant, claim.queue, claim.instance, claim.now)
    held: int = connection.execute(_COUNT_HELD, asked).fetchone()[0]
    return held
