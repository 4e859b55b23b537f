"""The newest executions of a query, of which there are at most so many: what counts and series look at."""

from collections.abc import Iterable
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.persistence.history.queries import ExecutionQuery
from scheduler_service.persistence.history.schema import NOT_SUCCEEDED, executions
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
    conditions += [planned >= query.planned_from] if query.planned_from is not None else []
    conditions += [planned <= query.planned_to] if query.planned_to is not None else []
    fits = sa.case((sa.and_(sa.true(), *_others(query, jobs, without)), 1), else_=0).label("fits")
    wanted = sa.select(*(_T[name] for name in columns), fits).where(*conditions)
    return wanted.order_by(planned.desc()).limit(MOST_EXAMINED + 1)


def _jobs_of(query: ExecutionQuery) -> frozenset[str] | None:
    if query.job_id is None:
        return query.job_ids
    own = frozenset({query.job_id})
    return own if query.job_ids is None else own & query.job_ids


def _others(
    query: ExecutionQuery, jobs: frozenset[str] | None, without: frozenset[str]
) -> Iterable[Condition]:
    if jobs is not None:
        yield IsIn(_T.job_id, _texts(jobs))
    if query.job_id is None and without:
        yield _T.job_id.not_in(without)
    if query.state is not None:
        yield _T.state == query.state.value
    if query.error is not None:
        yield _T.error == query.error
    if query.triggered_by is not None:
        yield _T.triggered_by == query.triggered_by.value


def _texts(jobs: frozenset[str]) -> sa.BindParameter[str]:
    return sa.literal(msgspec.json.encode(sorted(jobs)).decode())
