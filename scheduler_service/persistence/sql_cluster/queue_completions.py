"""How leases of a cluster were completed, to recognise a repetition; bounded by age and by number."""

import sqlalchemy as sa

from scheduler_service.domain.parts import PartEnd, digest_said
from scheduler_service.persistence.common.writes import COMPLETION_KEPT_MS
from scheduler_service.persistence.sql.dialect import Dialect
from scheduler_service.persistence.sql_cluster.schema import queue_completions

PRUNE_BATCH_SIZE = 10
"""How many old completions may be deleted with each new one, so that no completion pays for many others."""

_known = queue_completions.c


def keep_completion(
    connection: sa.Connection, dialect: Dialect, lease: str, end: PartEnd, limit: int
) -> None:
    """Keeps how a lease was completed; at most about `limit` of them, for a day."""
    row = {"digest": digest_said(end), "at": end.at}
    insert = dialect.insert(queue_completions).values(lease=lease, **row)
    connection.execute(insert.on_conflict_do_update(index_elements=[_known.lease], set_=row))
    newest = sa.select(sa.func.max(_known.place)).scalar_subquery()
    oldest = sa.select(_known.place).order_by(_known.place).limit(PRUNE_BATCH_SIZE)
    is_too_many = _known.place <= newest - limit
    # Those that another node removes at the moment are left to it.
    some = _known.place.in_(oldest.with_for_update(skip_locked=True))
    is_old = _known.at < end.at - COMPLETION_KEPT_MS
    connection.execute(sa.delete(queue_completions).where(some, is_old | is_too_many))


def is_known_completion(connection: sa.Connection, lease: str, end: PartEnd) -> bool:
    """Whether the lease was completed with exactly this end."""
    known = connection.execute(sa.select(_known.digest).where(_known.lease == lease)).scalar()
    return known is not None and bytes(known) == digest_said(end)


def forget_completion(connection: sa.Connection, lease: str) -> None:
    """Forgets how a lease was completed."""
    connection.execute(sa.delete(queue_completions).where(_known.lease == lease))
