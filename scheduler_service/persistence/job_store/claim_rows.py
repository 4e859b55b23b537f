"""What turns and settlements leave in the shared database: the statements and their rows."""

from collections.abc import Iterable, Sequence

import msgspec

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Due
from scheduler_service.domain.wire import Holder
from scheduler_service.persistence.common.packing import pack
from scheduler_service.persistence.job_store.job_store_schema import outbox, queue_turns, untold
from scheduler_service.persistence.sql.expressions import GuardedUpsert, Row, Upsert, overwrite
from scheduler_service.persistence.sql.job_tables import ENTRY, answer_of, definitions, entry_row, jobs
from scheduler_service.ports.cluster import TurnClaim
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Commit, Settlement

_JOBS = (
    *(column.name for column in ENTRY), "due_wall", "due_steady", "sequence", "node", "boot", "claimed_at",
    "turn_state", "is_first",
)  # fmt: skip
CLAIMS = GuardedUpsert(
    table=jobs,
    columns=_JOBS,
    given=("expected",),
    guard="jobs.sequence = given.expected",
    adds="given.expected <= 0",  # a turn of a job that was forgotten meanwhile must not bring it back
    blob="turn_state",
)
OWN_CLAIMS = msgspec.structs.replace(
    CLAIMS,
    guard="(jobs.state = 'destroyed' AND given.expected IN (0, jobs.sequence)) "
    "OR (jobs.sequence = given.expected AND jobs.uid = given.uid)",
)
"""Of a service that has the database alone: where it expects 0 it knows the counters of a destroyed job."""
DEFINITIONS = Upsert(
    table=definitions,
    columns=("uid", "revision", "job_id", "created_at", "text"),
    key=("uid", "revision"),
    changes=overwrite("job_id", "created_at", "text"),
    blob="text",
)
DELIVERIES = Upsert(
    table=outbox,
    columns=("delivery_id", "content", "done_at", "node", "boot"),
    key=("delivery_id",),
    blob="content",
)
CHANGED_DELIVERIES = msgspec.structs.replace(DELIVERIES, changes=overwrite("content"))
RECORDS = Upsert(
    table=untold,
    columns=("uid", "sequence", "content", "node", "boot"),
    key=("uid", "sequence"),
    changes=overwrite("content", "node", "boot"),
    blob="content",
)
QUEUE_TURNS = Upsert(
    table=queue_turns,
    columns=("uid", "sequence", "at"),
    key=("uid",),
    changes=overwrite("sequence", "at"),
    guard="queue_turns.sequence < excluded.sequence",
)


class SettledDeliveries(msgspec.Struct, frozen=True, gc=False):
    """Results of tries of deliveries."""

    settlements: tuple[Settlement, ...]


def is_single_statement(claims: Sequence[TurnClaim]) -> bool:
    """Whether `claims` are one statement: each of another job, and none brings or removes anything else."""
    if len({claim.commit.entry.job_id for claim in claims}) < len(claims):
        return False
    return not any(claim.records or _brings_more(claim.commit) for claim in claims)


def _brings_more(commit: Commit) -> bool:
    if commit.definition is not None or commit.deliveries or commit.queued or answers_of([commit]):
        return True
    return commit.entry.state is JobState.DESTROYED


def row_of(claim: TurnClaim) -> Row:
    """The row of `jobs` that a claim leaves, and the sequence that it expects to be there."""
    commit, holder = claim.commit, claim.holder
    due = Due() if commit.entry.state is JobState.DESTROYED else commit.due
    return (
        *entry_row(commit.entry), due.wall, due.steady, commit.sequence, holder.node, holder.boot, claim.at,
        claim.state, int(claim.is_first), commit.expected,
    )  # fmt: skip


def definition_of(commit: Commit) -> Row:
    """The row of `definitions` that a turn brings."""
    entry = commit.entry
    return entry.uid, entry.revision, entry.job_id, entry.updated_at, commit.definition


def answers_of(commits: Iterable[Commit]) -> list[Row]:
    """The rows of `remembered` that turns bring: answers to messages are in the states of their jobs."""
    kept = [commit.remembered for commit in commits if commit.remembered is not None]
    return [answer_of(one) for one in kept if not one.is_of_message]


def delivery_of(delivery: Delivery, holder: Holder) -> Row:
    """The row of `outbox` of a delivery that `holder` sends."""
    return delivery.delivery_id, pack(delivery), None, holder.node, holder.boot


def records_of(batches: Iterable[Batch], holder: Holder) -> list[Row]:
    """The rows of `untold` of records that `holder` brings to the history."""
    return [(one.uid, one.sequence, pack(one), holder.node, holder.boot) for one in batches]
