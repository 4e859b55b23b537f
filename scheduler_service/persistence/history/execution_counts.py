"""How many executions a list would have, by state and by error (SPEC section 10)."""

from typing import Any

import sqlalchemy as sa

from scheduler_service.domain.execution import ExecutionState
from scheduler_service.domain.moments import rfc3339
from scheduler_service.persistence.history.examination import MOST_EXAMINED, select_examined
from scheduler_service.persistence.history.queries import ExecutionQuery, Wire

MOST_ERRORS = 100
_SUCCEEDED = ExecutionState.SUCCEEDED
_SHOWN = ("uid", "execute_number", "job_id", "planned_at", "state", "error", "failure_type")


def collect_counts(connection: sa.Connection, query: ExecutionQuery, without: frozenset[str]) -> Wire:
    """`total`, `byState` and `byError` of the newest executions that fit.

    Of all executions of the span, and of those that did not succeed, 10,000 each are looked at: so failures
    are found however many succeed.
    """
    succeeded, is_capped = 0, False
    if query.state in (None, _SUCCEEDED) and query.error is None:
        succeeded, is_capped = _count_succeeded(connection, query, without)
    by_state = {state.value: 0 for state in ExecutionState} | {_SUCCEEDED.value: succeeded}
    errors: list[Wire] = []
    if query.state is not _SUCCEEDED:
        for kind, name, failure, number, jobs, latest in connection.execute(_select_others(query, without)):
            if kind == "state":
                by_state[name] = number
            elif kind == "error":
                errors.append(_error_wire(name, failure, number, jobs, latest))
            else:
                is_capped = is_capped or number > MOST_EXAMINED
    errors.sort(key=_rank)
    total = {"value": sum(by_state.values()), "isCapped": is_capped}
    return {"total": total, "byState": by_state, "byError": errors[:MOST_ERRORS]}


def _count_succeeded(
    connection: sa.Connection, query: ExecutionQuery, without: frozenset[str]
) -> tuple[int, bool]:
    """How many succeeded among the newest, and whether there are more than were looked at."""
    seen = select_examined(query, without, columns=("state",)).subquery("seen")
    is_wanted = sa.and_(seen.c.state == _SUCCEEDED.value, seen.c.fits == 1)
    wanted = sa.func.coalesce(sa.func.sum(sa.case((is_wanted, 1), else_=0)), 0)
    looked, found = connection.execute(sa.select(sa.func.count(), wanted).select_from(seen)).one()
    return int(found), looked > MOST_EXAMINED


def _select_others(query: ExecutionQuery, without: frozenset[str]) -> sa.CompoundSelect[Any]:
    """By one look at what did not succeed: how many there are, by state, and by error."""
    seen = select_examined(query, without, columns=_SHOWN, unsuccessful=True).cte("seen")
    nothing, none = sa.cast(sa.null(), sa.Text), sa.literal(0)
    planned, number = sa.cast(seen.c.planned_at, sa.Text), sa.cast(seen.c.execute_number, sa.Text)
    # Moments have thirteen digits until the year 2286: as texts, too, the latest is the largest.
    latest = sa.func.max(planned + " " + seen.c.uid + "-" + number)
    looked = sa.select(sa.literal("looked"), nothing, nothing, sa.func.count(), none, nothing)
    states = sa.select(sa.literal("state"), seen.c.state, nothing, sa.func.count(), none, nothing)
    jobs = sa.func.count(sa.distinct(seen.c.job_id))
    errors = sa.select(
        sa.literal("error"), seen.c.error, seen.c.failure_type, sa.func.count(), jobs, latest
    ).where(seen.c.fits == 1, seen.c.error.is_not(None))
    return sa.union_all(
        looked.select_from(seen),
        states.where(seen.c.fits == 1).group_by(seen.c.state),
        errors.group_by(seen.c.error, seen.c.failure_type),
    )


def _error_wire(error: str, failure_type: str | None, count: int, jobs: int, latest: str) -> Wire:
    planned_at, _, execution_id = latest.partition(" ")
    return {
        "error": error,
        "failureType": failure_type,
        "count": count,
        "jobs": jobs,
        "latestExecutionId": execution_id,
        "latestAt": rfc3339(int(planned_at)),
    }


def _rank(error: Any) -> tuple[int, str, str]:
    """The most frequent first."""
    return -error["count"], error["error"], error["failureType"] or ""
