"""What the sweep of a node asks the shared database for each second: built once, for that costs as much."""

from collections.abc import Iterable

import sqlalchemy as sa

from scheduler_service.domain.wire import Holder
from scheduler_service.persistence.sql.job_tables import jobs
from scheduler_service.persistence.sql_cluster.schema import copies, outbox, untold

_MOST = sa.bindparam("most", type_=sa.Integer)


def _is_abandoned(table: sa.Table) -> sa.ColumnElement[bool]:
    """Whether a row of `table` belongs to a node that is not among `alive`."""
    return sa.tuple_(table.c.node, table.c.boot).not_in(sa.bindparam("alive", expanding=True))


def values_of(alive: Iterable[Holder]) -> list[tuple[str, str]]:
    """The value of `alive` in the statements below."""
    return [(one.node, one.boot) for one in alive]


OVERDUE = (
    sa.select(jobs.c.job_id)
    .where((jobs.c.due_wall <= sa.bindparam("wall")) | (jobs.c.due_steady <= sa.bindparam("steady")))
    .order_by(sa.func.coalesce(jobs.c.due_wall, jobs.c.due_steady))
    .limit(_MOST)
)
"""`wall`, `steady`, `most`: ids of jobs that were due by then."""

ABANDONED = (
    sa.select(jobs.c.job_id)
    .where(_is_abandoned(jobs), (jobs.c.live > 0) | (jobs.c.claimed_at >= sa.bindparam("since")))
    .where(jobs.c.job_id > sa.bindparam("after"))
    .order_by(jobs.c.job_id)
    .limit(_MOST)
)
"""`alive`, `since`, `after`, `most`: ids of jobs that a node left work of."""

UNBEGUN = (
    sa.select(jobs.c.job_id, jobs.c.due_wall, jobs.c.created_at, jobs.c.node, jobs.c.boot)
    .join(copies, (copies.c.job_id == jobs.c.job_id) & (copies.c.sequence == jobs.c.sequence))
    .where(jobs.c.due_wall >= sa.bindparam("due"), jobs.c.due_wall <= sa.bindparam("until"))
    .where((jobs.c.due_wall > sa.bindparam("due")) | (jobs.c.job_id > sa.bindparam("after")))
    .where(jobs.c.execute_number == 0, jobs.c.revision == 1)
    .order_by(jobs.c.due_wall, jobs.c.job_id)
    .limit(_MOST)
)
"""`due`, `after`, `until`, `most`: jobs whose first state lies with their claim, with their creators.

Among them may be one that has fired never and was taken over from a dead node: it rings once in vain.
"""

ADOPTED_DELIVERIES = (
    sa.update(outbox)
    .where(
        outbox.c.delivery_id.in_(
            sa.select(outbox.c.delivery_id)
            .where(_is_abandoned(outbox), outbox.c.done_at.is_(None))
            .limit(_MOST)
            .scalar_subquery()
        )
    )
    .values(node=sa.bindparam("new_node"), boot=sa.bindparam("new_boot"))
    .returning(outbox.c.content)
)
"""`alive`, `most`, `new_node`, `new_boot`: the contents of deliveries that are the new holder's now."""

ABANDONED_HISTORY = (
    sa.select(untold.c.uid, untold.c.sequence, untold.c.content).where(_is_abandoned(untold)).limit(_MOST)
)
"""`alive`, `most`: records that a node left untold."""
