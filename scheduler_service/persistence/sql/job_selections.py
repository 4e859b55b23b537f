"""The statements that find a page of jobs, and that count them, from what a query asks for.

A statement is made once for each form of a question and takes the values as parameters, so that back ends
and SQLAlchemy can keep its text.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.execution import JobState
from scheduler_service.persistence.common.pagination import MEMBERS, PagePosition, read_position
from scheduler_service.persistence.sql.expressions import (
    AnyMemberLike,
    Like,
    Member,
    NewestState,
    SumBefore,
    Unindexed,
)
from scheduler_service.persistence.sql.job_tables import ENTRY, jobs
from scheduler_service.ports.catalogue import LAST_OUTCOMES, MOST_COUNTED, JobQuery, JobSort, LastOutcome

# Forms of a question whose statements are kept.
FORMS_KEPT = 512
Statement = sa.Select[Any]
Values = Mapping[str, Any]
# A statement with its values.
Read = tuple[Statement, Values]
Condition = sa.ColumnElement[bool]
Way = Callable[[sa.ColumnElement[Any]], sa.UnaryExpression[Any]]
_bind = sa.bindparam
_entries = sa.select(*ENTRY)
_LIMIT: sa.BindParameter[int] = _bind("limit", type_=sa.Integer)


def page_reads(query: JobQuery) -> list[Read]:
    """What finds a page, and one job more where the list goes on. Raises CursorError.

    `limit` and `room` are to be set: the jobs, and the characters that their labels may have as JSON.

    Jobs that have no value in the order of the list come last, by a statement of their own: so each of the
    two reads its rows in the order of an index.
    """
    position = read_position(query)
    form, values = _read_form(query, position)
    if position is not None:
        values |= {"last_value": position.value, "last_id": position.job_id}
    return [(statement, values) for statement in _select_page(form)]


def tally_read(query: JobQuery) -> Read:
    """What counts jobs by state, kind and the state of the newest execution, MOST_COUNTED and one at most."""
    form, values = _read_form(query)
    # Children are fewer than the jobs of a tenant.
    form = msgspec.structs.replace(form, is_narrow=query.parent_job is None)
    return _select_tally(form), {**values, "limit": MOST_COUNTED + 1}


def _read_form(query: JobQuery, position: PagePosition | None = None) -> "tuple[_Form, dict[str, Any]]":
    """What the statement of a query depends on, and its values."""
    filters = dict(_column_filters(query))
    values: dict[str, Any] = dict(filters)
    values |= {f"state{number}": state.value for number, state in enumerate(query.states)}
    values |= label_values(query.labels)
    if query.text:
        values["text"] = _containing(query.text)
    newest = [] if query.last_outcome is None else _states_of(query.last_outcome)
    values |= {f"newest{number}": state for number, state in enumerate(newest)}
    form = _Form(
        filters=tuple(filters),
        states=len(query.states),
        labels=len(query.labels),
        has_text=bool(query.text),
        is_narrow=_is_narrow(query),
        sort=query.sort,
        descending=query.descending,
        is_behind=position is not None,
        has_value=position is not None and position.value is not None,
        newest=None if query.last_outcome is None else len(newest),
    )
    return form, values


class _Form(msgspec.Struct, frozen=True):
    """A query without its values. `has_value`: the page before it ended at a job with a value.

    `newest`: how many states the newest execution may have; 0: there is none; None: that is no condition.
    """

    filters: tuple[str, ...]
    states: int
    labels: int
    has_text: bool
    is_narrow: bool
    sort: JobSort
    descending: bool
    is_behind: bool
    has_value: bool
    newest: int | None


_FILTERED = ("tenant", "kind", "creator", "object_id", "parent_job", "parent_execution", "system")
"""Columns that a query can ask to have one value, members of `JobQuery` of the same name."""


def _column_filters(query: JobQuery) -> Iterable[tuple[str, Any]]:
    for name in _FILTERED:
        value = getattr(query, name)
        if value is not None:
            yield name, int(value) if isinstance(value, bool) else value


def _is_narrow(query: JobQuery) -> bool:
    """Whether the index of states leads to few jobs, or to jobs in the order of the list."""
    if len(query.states) != 1:
        return False
    return query.sort is JobSort.JOB_ID or query.states[0] is not JobState.ACTIVE


def _containing(text: str) -> str:
    for sign in "\\%_":
        text = text.replace(sign, f"\\{sign}")
    return f"%{text}%"


@lru_cache(FORMS_KEPT)
def _select_page(form: _Form) -> tuple[Statement, ...]:
    """Each ends early where the labels of the rows before have `room` characters."""
    conditions = _conditions(form)
    column, last = jobs.c[MEMBERS[form.sort]], jobs.c.job_id
    way = sa.desc if form.descending else sa.asc
    last_id, last_value = _bind("last_id", type_=last.type), _bind("last_value", type_=column.type)
    behind = [last < last_id if form.descending else last > last_id] if form.is_behind else []
    base = _entries.where(*conditions)
    if form.sort is JobSort.JOB_ID:
        return (_until_full(base.where(*behind), last, way=way),)
    without = base.where(column.is_(None), *(behind if not form.has_value else []))
    if form.is_behind and not form.has_value:
        return (_until_full(without, last, way=way),)
    having = base.where(column.is_not(None))
    if form.is_behind:
        pair, place = sa.tuple_(column, last), sa.tuple_(last_value, last_id)
        # Not all databases make a range of an index of a comparison of rows; SQLite does without this.
        first = Unindexed(column)
        bound = first <= last_value if form.descending else first >= last_value
        having = having.where(bound, pair < place if form.descending else pair > place)
    page = _until_full(having, column, last, way=way)
    return (page, _until_full(without, last, way=way)) if column.nullable else (page,)


def _until_full(statement: Statement, *order: sa.Column[Any], way: Way) -> Statement:
    page = statement.order_by(*map(way, order)).limit(_LIMIT).subquery("page")
    size = sa.func.length(page.c.labels)
    before = SumBefore(size, *(way(page.c[one.name]) for one in order)).label("before")
    weighed = sa.select(*page.c, before).subquery("weighed")
    columns = [weighed.c[one.name] for one in ENTRY]
    return sa.select(*columns).where(weighed.c.before < _bind("room", type_=sa.BigInteger))


def _conditions(form: _Form) -> Iterable[Condition]:
    def indexed(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        return column if form.is_narrow else Unindexed(column)

    if form.states:
        yield indexed(jobs.c.state).in_([_bind(f"state{number}") for number in range(form.states)])
    for name in form.filters:
        column = jobs.c[name]
        yield (indexed(column) if name == "tenant" else column) == _bind(name)
    yield from have_labels(form.labels)
    if form.has_text:
        text = _bind("text", type_=sa.Text)
        found = [Like(column, text) for column in _SEARCHED]
        yield sa.or_(*found, AnyMemberLike(jobs.c.labels, text))
    if form.newest == 0:
        yield NewestState(jobs.c.latest).is_(None)
    elif form.newest is not None:
        yield NewestState(jobs.c.latest).in_([_bind(f"newest{number}") for number in range(form.newest)])


def have_labels(count: int) -> Iterable[Condition]:
    """That a job has so many labels, those of `label_values`."""
    for number in range(count):
        yield Member(jobs.c.labels, _bind(f"key{number}", type_=sa.Text)) == _bind(f"label{number}")


def label_values(labels: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The values of `have_labels`."""
    values: dict[str, str] = {}
    for number, (key, value) in enumerate(labels):
        values |= {f"key{number}": key, f"label{number}": value}
    return values


_SEARCHED = (jobs.c.job_id, jobs.c.job_name, jobs.c.object_id, jobs.c.creator)


def _states_of(outcome: LastOutcome) -> list[str]:
    return [state.value for state, known in LAST_OUTCOMES.items() if known is outcome]


@lru_cache(FORMS_KEPT)
def _select_tally(form: _Form) -> Statement:
    """How many jobs fit, by state, kind and the state of the newest execution."""
    fitting = (
        sa.select(jobs.c.state, jobs.c.kind, NewestState(jobs.c.latest).label("newest"))
        .where(*_conditions(form))
        .limit(_LIMIT)
        .subquery("fitting")
    )
    key = (fitting.c.state, fitting.c.kind, fitting.c.newest)
    return sa.select(*key, sa.func.count()).group_by(*key)
