"""What a claim leaves in the shared database: the statements and their rows."""

from collections.abc import Sequence
from operator import itemgetter

import msgspec

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Due
from scheduler_service.persistence.sql.expressions import GuardedUpsert, Row, Upsert, overwrite
from scheduler_service.persistence.sql.job_tables import definitions, entry_values, jobs
from scheduler_service.persistence.sql_cluster.schema import copies, remembered
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.cluster import TurnClaim
from scheduler_service.ports.state import Remembered

# A claim counts as long as the turn behind it can still write: 2 s of turn, and what a sidecar may add.
CLAIM_MS = 5_000
_JOBS = tuple(column.name for column in jobs.c)
_values_of = itemgetter(*_JOBS)
CLAIMS = GuardedUpsert(
    table=jobs,
    columns=_JOBS,
    given=("expected", "is_exact"),
    guard="jobs.sequence = given.expected OR (given.is_exact = 0 AND jobs.turn_state IS NULL "
    "AND ((jobs.node = given.node AND jobs.boot = given.boot) "
    f"OR jobs.claimed_at < given.claimed_at - {CLAIM_MS}))",
)
DEFINITIONS = Upsert(
    table=definitions,
    columns=("uid", "revision", "job_id", "created_at", "text"),
    key=("uid", "revision"),
    changes=overwrite("job_id", "created_at", "text"),
)
COPIES = Upsert(
    table=copies,
    columns=("job_id", "sequence", "state", "at"),
    key=("job_id",),
    changes=overwrite("sequence", "state", "at"),
)
ANSWERS = Upsert(
    table=remembered,
    columns=Remembered.__struct_fields__,
    key=("scope", "key"),
    changes=overwrite(*Remembered.__struct_fields__[2:]),
)


def is_single_statement(claims: Sequence[TurnClaim]) -> bool:
    """Whether `claims` are one statement: each of another job, and none brings or removes anything else."""
    if len({claim.entry.job_id for claim in claims}) < len(claims):
        return False
    return not any(map(_brings_more, claims))


def _brings_more(claim: TurnClaim) -> bool:
    if claim.definition is not None or claim.remembered is not None or has_copy(claim):
        return True
    return claim.entry.state is JobState.DESTROYED


def has_copy(claim: TurnClaim) -> bool:
    """Whether the claim brings a row of `copies`; the state of a commit lies in its own row."""
    return claim.copy is not None and not claim.is_commit


def row_of(claim: TurnClaim) -> Row:
    """The row of `jobs` that a claim leaves, and what it expects to be there."""
    row = entry_values(claim.entry) | due_values(claim.entry, claim.due)
    row |= {
        "sequence": claim.sequence,
        "node": claim.holder.node,
        "boot": claim.holder.boot,
        "claimed_at": claim.at,
        "turn_state": claim.copy if claim.is_commit else None,
    }
    return (*_values_of(row), claim.expected, int(claim.is_exact))


def due_values(entry: CatalogueEntry, due: Due) -> dict[str, int | None]:
    """When a job is due, as its row has it; one that is destroyed never is."""
    if entry.state is JobState.DESTROYED:
        due = Due()
    return {"due_wall": due.wall, "due_steady": due.steady}


def definition_of(claim: TurnClaim) -> Row:
    """The row of `definitions` that a claim brings."""
    entry = claim.entry
    return entry.uid, entry.revision, entry.job_id, entry.updated_at, claim.definition


def copy_of(claim: TurnClaim) -> Row:
    """The row of `copies` that a claim brings."""
    return claim.entry.job_id, claim.sequence, claim.copy, claim.at


def answer_of(kept: Remembered) -> Row:
    """The row of `remembered` for what a claim brings."""
    return msgspec.structs.astuple(kept)
