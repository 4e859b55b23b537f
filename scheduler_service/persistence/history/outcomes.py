"""The latest executions of many jobs in one question, as a page of jobs shows them (SPEC section 10)."""

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.execution import write_execution_id
from scheduler_service.persistence.history.queries import Wire
from scheduler_service.persistence.history.shapes import lateness, moment_wire
from scheduler_service.persistence.sql.expressions import JsonLists

# The columns that are read: by the first three rows are told apart and put in order.
_READ = (
    "job_id", "created_at", "execute_number", "uid", "state", "error", "planned_at", "started_at", "ended_at",
)  # fmt: skip


def collect_outcomes(
    connection: sa.Connection, tenant: str, job_ids: Collection[str], count: int
) -> Mapping[str, list[Wire]]:
    """Of each job its newest `count` executions, the newest last; a job without any has an empty list."""
    found: dict[str, list[Wire]] = {job_id: [] for job_id in job_ids}
    if not found:
        return found
    values = {f"j{place}": job_id for place, job_id in enumerate(found)}
    kept = connection.execute(_select_outcomes(len(found)), {"tenant": tenant, "most": count, **values})
    for row in sorted(msgspec.json.decode(kept.scalar_one() or "[]"), key=_place):
        found[row[0]].append(_outcome_wire(*row[2:]))
    return found


def _place(row: list[Any]) -> list[Any]:
    return row[:3]


@lru_cache(64)
def _select_outcomes(jobs: int) -> sa.Select[Any]:
    """All of it as one JSON text: a row per execution would cost the thread a wait for the interpreter each.

    For each job the index of its executions is read from the end, `most` entries far: by a part of the text
    of its own, for not all databases have a subquery that knows the row beside it.
    """
    columns = ",".join(_READ)
    newest = (
        f"SELECT * FROM (SELECT {columns} FROM executions WHERE tenant=:tenant AND job_id=:j{place} "  # noqa: S608
        f"ORDER BY created_at DESC,uid DESC,execute_number DESC LIMIT :most) AS job{place}"
        for place in range(jobs)
    )
    found = sa.text(" UNION ALL ".join(newest)).columns(*map(sa.column, _READ))
    return sa.select(JsonLists(*found.subquery("newest").c))


def _outcome_wire(
    number: int,
    uid: str,
    state: str,
    error: str | None,
    planned_at: int,
    started_at: int | None,
    ended_at: int | None,
) -> Wire:
    duration = None if started_at is None or ended_at is None else ended_at - started_at
    return {
        "executionId": write_execution_id(uid, number),
        "executeNumber": number,
        "state": state,
        "error": error,
        "startedAt": moment_wire(started_at),
        "endedAt": moment_wire(ended_at),
        "durationMs": duration,
        "latenessMs": lateness(planned_at, started_at),
    }
