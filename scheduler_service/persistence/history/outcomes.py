"""The latest executions of many jobs in one question, as a page of jobs shows them (SPEC section 10)."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.execution import write_execution_id
from scheduler_service.persistence.history.queries import Wire
from scheduler_service.persistence.history.schema import executions
from scheduler_service.persistence.history.shapes import lateness, moment_wire
from scheduler_service.persistence.sql.expressions import JsonLists, json_rows

# The columns that are read, in the order in which `_outcome_wire` takes them.
_SHOWN = ("uid", "execute_number", "state", "error", "planned_at", "started_at", "ended_at")


def collect_outcomes(
    connection: sa.Connection, tenant: str, job_ids: Collection[str], count: int
) -> Mapping[str, list[Wire]]:
    """Of each job its newest `count` executions, the newest last; a job without any has an empty list."""
    names = msgspec.json.encode([[job_id] for job_id in job_ids]).decode()
    rows = connection.execute(_OUTCOMES, {"tenant": tenant, "names": names, "most": count})
    found = {name: msgspec.json.decode(kept or "[]") for name, kept in rows}
    return {job_id: [_outcome_wire(*one) for one in reversed(found[job_id])] for job_id in job_ids}


def _select_outcomes() -> sa.Select[Any]:
    """A row per job, with its executions as one JSON text.

    A row per execution would cost the thread a wait for the interpreter each. For each job the index of its
    executions is read from the end, `most` entries far.
    """
    table = executions.c
    names = json_rows(sa.bindparam("names", type_=sa.Text)).alias("names")
    newest = (
        sa.select(*(table[name] for name in _SHOWN))
        .where(table.tenant == sa.bindparam("tenant"), table.job_id == names.c.name)
        .order_by(table.created_at.desc(), table.execute_number.desc())
        .limit(sa.bindparam("most", type_=sa.Integer))
        .correlate(names)
        .subquery("newest")
    )
    kept = sa.select(JsonLists(*newest.c)).correlate(names).scalar_subquery()
    return sa.select(names.c.name, kept)


_OUTCOMES = _select_outcomes()


def _outcome_wire(
    uid: str,
    number: int,
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
