"""Answers that repeated requests are given again: their part in the sum of a group of writes."""

import sqlite3

import sqlalchemy as sa

from scheduler_service.domain.moments import DAY
from scheduler_service.persistence.sqlite.statements import (
    ADD_REMEMBERED,
    DROP_REMEMBERED,
    PRUNE_REMEMBERED,
    PUT_REMEMBERED,
    put_rows,
)
from scheduler_service.ports.state import Remembered


class KeptAnswers:
    """What a group adds of them, and the jobs whose lives it ends."""

    def __init__(self) -> None:
        self._added: dict[tuple[str, str], Remembered] = {}
        self._ended: set[str] = set()

    def add(self, remembered: Remembered) -> None:
        """Keeps an answer."""
        self._added[remembered.scope, remembered.key] = remembered

    def end(self, job_id: str) -> None:
        """An answer of a life that ends must not be given to a later one."""
        self._ended.add(job_id)
        self._added = {place: one for place, one in self._added.items() if one.job_id != job_id}

    def flush(self, connection: sqlite3.Connection) -> None:
        """Writes them into the open transaction; those that are older than a day are dropped."""
        put_rows(connection, DROP_REMEMBERED, [(job_id,) for job_id in self._ended])
        if not self._added:
            return
        put_rows(connection, PUT_REMEMBERED, [_row_of(kept) for kept in self._added.values()])
        newest = max(kept.created_at for kept in self._added.values())
        connection.execute(PRUNE_REMEMBERED, (newest - DAY,))


def add_first(connection: sa.Connection, dialect: object, kept: Remembered, since: int) -> bool:
    """Writes it into the open transaction; False: one of its key was kept at `since` or later."""
    return connection.exec_driver_sql(ADD_REMEMBERED, (*_row_of(kept), since)).rowcount > 0


def _row_of(kept: Remembered) -> tuple[object, ...]:
    return kept.scope, kept.key, kept.created_at, kept.digest, kept.answer, kept.job_id
