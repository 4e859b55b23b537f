"""What the sweep of a node asks the shared database for each second: built once, for that costs as much.

What dead nodes left is looked for by holder: first which holders have rows, one step in an index for each of
them, then the rows of those that are not alive, mostly none. So the rows of living nodes are not read.
"""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from scheduler_service.domain.wire import Holder
from scheduler_service.persistence.job_store.job_store_schema import outbox, untold
from scheduler_service.persistence.sql.expressions import IndexSteps
from scheduler_service.persistence.sql.job_tables import jobs

_ONE: sa.ColumnElement[int] = sa.literal_column("1")
_ZERO: sa.ColumnElement[int] = sa.literal_column("0")
_MOST = sa.bindparam("most", type_=sa.Integer)
_SINCE = sa.bindparam("since", type_=sa.BigInteger)


def _holders(table: sa.Table, *conditions: sa.ColumnElement[bool]) -> sa.FromClause:
    """The holders of rows of `table` that meet `conditions`, and perhaps a row of NULL.

    From the last to the first, each step to the latest entry of the next holder: the other way round it would
    land where the entries lie that claims have left behind, and pass all of those that are not yet removed.
    Not by a comparison of rows, for which SQLite passes all entries of the holder that it comes from.
    """
    node, boot = table.c.node, table.c.boot

    def last(column: sa.Column[str], *more: sa.ColumnElement[bool]) -> sa.ScalarSelect[str]:
        query = sa.select(column).where(*conditions, *more).order_by(node.desc(), boot.desc()).limit(_ONE)
        return query.correlate_except(table).scalar_subquery()

    found = sa.select(last(node).label("node"), last(boot).label("boot")).cte("holders", recursive=True)
    of_same_node = last(boot, node == found.c.node, boot < found.c.boot)
    is_before = node < found.c.node
    step = sa.select(
        sa.case((of_same_node.is_not(None), found.c.node), else_=last(node, is_before)),
        sa.func.coalesce(of_same_node, last(boot, is_before)),
    )
    steps = found.union_all(step.where(found.c.node.is_not(None)))
    each = sa.select(node, boot).where(*conditions).distinct()
    return IndexSteps(
        sa.select(steps.c.node, steps.c.boot).scalar_subquery(), each.scalar_subquery()
    ).table_valued(sa.column("node", node.type), sa.column("boot", boot.type))


def _dead(holders: sa.FromClause) -> sa.Select[Any]:
    """Those among `holders` that are not among `alive`."""
    node, boot = holders.c.node, holders.c.boot
    is_dead = sa.tuple_(node, boot).not_in(sa.bindparam("alive", expanding=True))
    return sa.select(node, boot).where(node.is_not(None), is_dead)


def _is_of_holder(table: sa.Table) -> sa.ColumnElement[bool]:
    return (table.c.node == sa.bindparam("its_node")) & (table.c.boot == sa.bindparam("its_boot"))


def read_dead(
    connection: sa.Connection, statement: sa.Select[Any], alive: Iterable[Holder], **values: int
) -> list[dict[str, str]]:
    """The holders that `statement` finds, as `its_node` and `its_boot` of a statement about one of them."""
    listed = [(one.node, one.boot) for one in alive]
    found = connection.execute(statement, {"alive": listed, **values}).all()
    return [{"its_node": node, "its_boot": boot} for node, boot in found]


OVERDUE = (
    sa.select(jobs.c.job_id)
    .where((jobs.c.due_wall <= sa.bindparam("wall")) | (jobs.c.due_steady <= sa.bindparam("steady")))
    .order_by(sa.func.coalesce(jobs.c.due_wall, jobs.c.due_steady))
    .limit(_MOST)
)
"""`wall`, `steady`, `most`: ids of jobs that were due by then."""

_first_those_that_run = (jobs.c.live.desc(), jobs.c.claimed_at.desc())
_held = _holders(jobs)


def _first(column: sa.Column[int]) -> sa.ScalarSelect[int]:
    """What the first of the holder's jobs has; where it is neither at work nor claimed lately, none is."""
    its = sa.select(column).where(jobs.c.node == _held.c.node, jobs.c.boot == _held.c.boot)
    return its.order_by(*_first_those_that_run).limit(_ONE).correlate(_held).scalar_subquery()


DEAD_HOLDERS = _dead(_held).where((_first(jobs.c.live) > _ZERO) | (_first(jobs.c.claimed_at) >= _SINCE))
"""`alive`, `since`: nodes that left work of jobs. Most that are gone have rows still, of jobs at rest."""

_left = sa.select(jobs.c.job_id, jobs.c.claimed_at).where(_is_of_holder(jobs))
_in_order = _left.order_by(*_first_those_that_run).limit(_MOST)
ABANDONED = (
    _in_order.where(jobs.c.live > _ZERO),
    _in_order.where(jobs.c.live == _ZERO, jobs.c.claimed_at >= _SINCE),
)
"""`its_node`, `its_boot`, `since`, `most`: jobs that the node left work of, with the moment of their claim:
those that run, then the others.

The order is that of the index: whatever the database believes of the rows, there is no other cheap way.
"""

_IS_FIRST = jobs.c.is_first == _ONE
UNBEGUN = (
    sa.select(jobs.c.job_id, jobs.c.due_wall, jobs.c.created_at, jobs.c.node, jobs.c.boot)
    .where(_IS_FIRST, jobs.c.due_wall >= sa.bindparam("due"), jobs.c.due_wall <= sa.bindparam("until"))
    .where((jobs.c.due_wall > sa.bindparam("due")) | (jobs.c.job_id > sa.bindparam("after")))
    .order_by(jobs.c.due_wall, jobs.c.job_id)
    .limit(_MOST)
)
"""`due`, `after`, `until`, `most`: jobs without a turn since their creation, with their creators."""

_is_open = outbox.c.done_at.is_(None)
DEAD_SENDERS = _dead(_holders(outbox, _is_open))
"""`alive`: nodes that left deliveries."""

ABANDONED_DELIVERIES = (
    sa.select(outbox.c.delivery_id, outbox.c.content)
    .where(_is_of_holder(outbox), _is_open)
    .limit(_MOST)
    .with_for_update(skip_locked=True)
)
"""`its_node`, `its_boot`, `most`: deliveries that the node left, but those that another one takes."""

DEAD_TELLERS = _dead(_holders(untold))
"""`alive`: nodes that left records untold."""

ABANDONED_RECORDS = (
    sa.select(untold.c.uid, untold.c.sequence, untold.c.content)
    .where(_is_of_holder(untold))
    .limit(_MOST)
    .with_for_update(skip_locked=True)
)
"""`its_node`, `its_boot`, `most`: records that the node left untold, but those that another one takes."""
