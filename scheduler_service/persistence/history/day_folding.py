"""Folds the cells of days that are over into a row for each job and day, and removes old days.

Each step works on few rows in a transaction of the writer.
"""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from scheduler_service.persistence.history.day_figures import Figures, decode_figures, encode_figures
from scheduler_service.persistence.history.schema import (
    statistic_cells,
    statistic_days,
    statistic_slots,
)
from scheduler_service.persistence.sql.dialect import Dialect
from scheduler_service.persistence.sql.expressions import Row, replacing

# How many rows one step takes: more would keep the writer from its load.
WINDOW_ROWS = 500
DAYS = replacing(statistic_days)

# Day, tenant and job.
Key = tuple[int, str, str]


class DayFolding:
    """The steps; each runs in a transaction that its caller opens."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def fold(self, before: int, connection: sa.Connection) -> int:
        """Folds some cells of days before the day `before`; how many there were, 0: none is left.

        What is deleted is what is added up, also where others write cells of such a day meanwhile.
        """
        window = _window(statistic_cells, statistic_cells.c.day, before)
        cells = self._dialect.take(connection, statistic_cells, window)
        added: dict[Key, Figures] = {}
        for cell in cells:
            added.setdefault((cell.day, cell.tenant, cell.job_id), Figures()).add_cell(cell)
        for key, known in _known(connection, added):
            added[key].add(known)
        rows = [_row(key, figures) for key, figures in sorted(added.items(), key=lambda item: item[0])]
        self._dialect.insert_many(connection, DAYS, rows)
        return len(cells)

    def remove(self, before: int, connection: sa.Connection) -> int:
        """Removes some rows of days before the day `before`; how many, 0: none is left."""
        return sum(
            self._delete(connection, table, table.c.day, before)
            for table in (statistic_cells, statistic_days)
        )

    def remove_slots(self, before: int, connection: sa.Connection) -> int:
        """Removes some rows of slots before the slot `before`; how many, 0: none is left."""
        return self._delete(connection, statistic_slots, statistic_slots.c.slot, before)

    def _delete(self, connection: sa.Connection, table: sa.Table, age: sa.Column[int], before: int) -> int:
        window = _window(table, age, before).subquery("window")
        is_old = self._dialect.among(table.primary_key, window.c)
        return connection.execute(sa.delete(table).where(is_old)).rowcount


def _window(table: sa.Table, age: sa.Column[int], before: int) -> sa.Select[Any]:
    """The keys of the rows that one step takes."""
    key = tuple(table.primary_key)
    return sa.select(*key).where(age < before).order_by(*key).limit(WINDOW_ROWS).correlate(None)


def _known(connection: sa.Connection, added: Iterable[Key]) -> list[tuple[Key, Figures]]:
    """What earlier steps have made of the same jobs and days."""
    table = statistic_days.c
    found: list[tuple[Key, Figures]] = []
    jobs: dict[tuple[int, str], list[str]] = {}
    for day, tenant, job_id in added:
        jobs.setdefault((day, tenant), []).append(job_id)
    for (day, tenant), job_ids in jobs.items():
        rows: Any = connection.execute(
            sa.select(table.job_id, table.figures).where(
                table.day == day, table.tenant == tenant, table.job_id.in_(job_ids)
            )
        )
        found += [((day, tenant, row.job_id), decode_figures(row.figures)) for row in rows]
    return found


def _row(key: Key, figures: Figures) -> Row:
    terminated = figures.states.get("terminated", 0)
    packed = bytearray(encode_figures(figures))
    return (*key, figures.count, terminated, figures.started, figures.duration_ms, packed)
