"""Sums and brief forms beside lists: how many executions and notifications there are; the latest of jobs."""

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from operator import itemgetter
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.execution import DeliveryState, ExecutionState, write_execution_id
from scheduler_service.domain.moments import rfc3339
from scheduler_service.persistence.history.queries import (
    DeliveryQuery,
    ExecutionQuery,
    Wire,
    between,
    delivery_conditions,
    other_conditions,
    read_lists,
)
from scheduler_service.persistence.history.row_shapes import lateness, moment_wire
from scheduler_service.persistence.history.schema import GIVEN_UP, NOT_SUCCEEDED, deliveries, executions
from scheduler_service.persistence.sql.expressions import IsIn, Unindexed

# So many executions are looked at; one more shows that there are more.
MOST_EXAMINED = 10_000
# The executions of so few jobs are found by the index of jobs; those of more among all in the span.
FEW_JOBS = 200
Condition = sa.ColumnElement[bool]
_T = executions.c


def select_examined(
    query: ExecutionQuery, without: frozenset[str], *, columns: Iterable[str], unsuccessful: bool = False
) -> sa.Select[Any]:
    """The newest planned in the span of `query`, MOST_EXAMINED and one at most, with `columns` and `fits`.

    `fits` is 1 for one that meets the other conditions, too. `unsuccessful`: those that succeeded are not
    looked at. Executions of the jobs `without` are included only where the query names such a job.
    """
    conditions = [_T.tenant == query.tenant]
    if unsuccessful:
        conditions.append(NOT_SUCCEEDED)
    jobs = _jobs_of(query)
    planned: sa.ColumnElement[int] = _T.planned_at
    if jobs is not None and len(jobs) <= FEW_JOBS:
        conditions.append(IsIn(_T.job_id, _texts(jobs)))
        planned, jobs = Unindexed(planned), None
    conditions += between(planned, query)
    others = [*other_conditions(query, without), *([] if jobs is None else [IsIn(_T.job_id, _texts(jobs))])]
    fits = sa.case((sa.and_(sa.true(), *others), 1), else_=0).label("fits")
    wanted = sa.select(*(_T[name] for name in columns), fits).where(*conditions)
    return wanted.order_by(planned.desc()).limit(MOST_EXAMINED + 1)


def _jobs_of(query: ExecutionQuery) -> frozenset[str] | None:
    if query.job_id is None:
        return query.job_ids
    own = frozenset({query.job_id})
    return own if query.job_ids is None else own & query.job_ids


def _texts(jobs: frozenset[str]) -> sa.BindParameter[str]:
    return sa.literal(msgspec.json.encode(sorted(jobs)).decode())


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


_D = deliveries.c


def collect_delivery_counts(connection: sa.Connection, query: DeliveryQuery) -> Wire:
    """`total` and `byState` of the newest notifications that fit.

    Of those that were never given up, and of those that once were, 10,000 each are looked at: so what is in
    the outbox is found, however many were delivered since.
    """
    by_state = {state.value: 0 for state in DeliveryState}
    looked = {False: 0, True: 0}
    for was_given_up, state, fits, number in connection.execute(_select_states(query)):
        looked[bool(was_given_up)] += number
        by_state[state] += number if fits else 0
    is_capped = any(number > MOST_EXAMINED for number in looked.values())
    return {"total": {"value": sum(by_state.values()), "isCapped": is_capped}, "byState": by_state}


def _select_states(query: DeliveryQuery) -> sa.CompoundSelect[Any]:
    """How many there are of each look, state and `fits`."""
    newest = _look(query).order_by(_D.created_at.desc()).limit(MOST_EXAMINED + 1).subquery("newest")
    given_up = _look(query).where(GIVEN_UP).order_by(_D.given_up_at.desc()).limit(MOST_EXAMINED + 1)
    return sa.union_all(
        _count(newest, 0).where(newest.c.given_up_at.is_(None)), _count(given_up.subquery("given_up"), 1)
    )


def _look(query: DeliveryQuery) -> sa.Select[Any]:
    fits = sa.case((sa.and_(sa.true(), *delivery_conditions(query)), 1), else_=0).label("fits")
    return sa.select(_D.state, _D.given_up_at, fits).where(_D.tenant == query.tenant)


def _count(seen: sa.Subquery, was_given_up: int) -> sa.Select[Any]:
    columns = (sa.literal(was_given_up), seen.c.state, seen.c.fits)
    return sa.select(*columns, sa.func.count()).group_by(seen.c.state, seen.c.fits)


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
    newest = _select_outcomes(len(found))
    rows = read_lists(connection, newest, {"tenant": tenant, "most": count, **values})
    for row in sorted(rows, key=itemgetter(slice(3))):
        found[row[0]].append(_outcome_wire(*row[2:]))
    return found


@lru_cache(64)
def _select_outcomes(jobs: int) -> sa.TextualSelect:
    """For each job the index of its executions is read from the end, `most` entries far.

    By a part of the text of its own, for not all databases have a subquery that knows the row beside it.
    """
    columns = ",".join(_READ)
    newest = (
        f"SELECT * FROM (SELECT {columns} FROM executions WHERE tenant=:tenant AND job_id=:j{place} "  # noqa: S608
        f"ORDER BY created_at DESC,uid DESC,execute_number DESC LIMIT :most) AS job{place}"
        for place in range(jobs)
    )
    return sa.text(" UNION ALL ".join(newest)).columns(*map(sa.column, _READ))


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
