"""What a process knows of the rows of its jobs: so that a turn writes the columns alone that it changes.

SQLite writes each index anew of whose columns one is named, whether its value changes or not. Nothing here
decides whether a turn counts: each statement has the sequence and the life of the job in its condition, and a
row that has both is as it was known.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from operator import attrgetter

import msgspec

from scheduler_service.domain.execution import JobState
from scheduler_service.persistence.job_store.claim_rows import OWN_CLAIMS, row_of
from scheduler_service.persistence.job_store.database import LARGE_BYTES
from scheduler_service.persistence.sql.expressions import NEVER, GuardedUpsert, Row
from scheduler_service.persistence.sql.job_tables import jobs
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.cluster import TurnClaim
from scheduler_service.ports.state import StoredJob

MOST_KNOWN = 16_384
_MOMENTS = ("due_wall", "due_steady", "next_fire")
_UNINDEXED = (
    "sequence", "execute_number", "request_counts", "missed", "live", "waiting", "latest", "turn_state",
)  # fmt: skip
_OTHERS = {"job_id", "state", "labels", *_MOMENTS, *_UNINDEXED}
_FACE = [name for name in CatalogueEntry.__struct_fields__ if name not in _OTHERS]
_face_of = attrgetter(*_FACE)


def _change_of(*columns: str) -> GuardedUpsert:
    """Changes these columns of jobs; `life` is the uid."""
    return GuardedUpsert(
        table=jobs,
        columns=("job_id", *columns),
        given=("expected", "life"),
        guard="jobs.sequence = given.expected AND jobs.uid = given.life",
        adds=NEVER,
        blob="turn_state",
    )


_SAME_MOMENTS, _TURN, _ENDED = (
    _change_of(*_UNINDEXED), _change_of(*_MOMENTS, *_UNINDEXED), _change_of("state", *_MOMENTS, *_UNINDEXED),
)  # fmt: skip
_NEW = msgspec.structs.replace(OWN_CLAIMS, is_new=True)
_STATEMENTS = (_SAME_MOMENTS, _TURN, _ENDED, _NEW, OWN_CLAIMS)
_Known = tuple[int, JobState, int, tuple[int | None, ...], bool]
"""The sequence, the state, a hash of the columns that a definition alone changes, the moments, and whether
the stored state is large."""


class KnownRows:
    """The rows that were read or written last, at most MOST_KNOWN. Any thread may call `note`."""

    def __init__(self, *, most: int = MOST_KNOWN) -> None:
        self._most = most
        self._known: dict[str, _Known] = {}
        self._planned: dict[str, _Known] = {}  # the writer's own

    def note(self, job: StoredJob) -> None:
        """A row is so."""
        entry, due = job.entry, job.due
        moments = (due.wall, due.steady, entry.next_fire)
        is_large = len(job.document or b"") > LARGE_BYTES
        self._known.pop(entry.job_id, None)
        self._known[entry.job_id] = (job.sequence, entry.state, _hash_of(entry), moments, is_large)
        self._drop_oldest()

    def settle(self, claims: Sequence[TurnClaim], verdicts: Sequence[object]) -> None:
        """Rows are as the planned claims leave them; of those that were lost it is not known how they are.

        Where the transaction fails, what is known has a sequence that no row gets but by another claim that
        wins. A verdict is None where the claim has won.
        """
        planned, self._planned = self._planned, {}
        for claim, verdict in zip(claims, verdicts, strict=True):
            job_id = claim.commit.entry.job_id
            found = planned.get(job_id)
            self._known.pop(job_id, None)  # the order of a dict is that in which its keys came
            if verdict is None and found is not None and found[0] == claim.commit.sequence:
                self._known[job_id] = found
        self._drop_oldest()

    def plan(self, claims: Iterable[TurnClaim]) -> Iterable[tuple[GuardedUpsert, Sequence[Row]]]:
        """Statements for the rows of claims of different jobs; `settle` is told of them before the commit.

        A row that had a large state is written alone: a statement over several rows keeps what it replaces in
        memory until its end.
        """
        together: tuple[list[Row], ...] = ([], [], [], [], [])
        for claim in claims:
            known, kind, row = self._write(claim)
            if known is not None and known[-1]:
                yield _STATEMENTS[kind], [row]
            else:
                together[kind].append(row)
        for statement, rows in zip(_STATEMENTS, together, strict=True):
            if rows:
                yield statement, rows

    def _write(self, claim: TurnClaim) -> tuple[_Known | None, int, Row]:
        """What was known of a row, the place of its statement, and its values."""
        commit = claim.commit
        entry, due = commit.entry, commit.due
        known, face = self._known.get(entry.job_id), _hash_of(entry)
        moments = (due.wall, due.steady, entry.next_fire)
        is_large = len(claim.state or b"") > LARGE_BYTES
        self._planned[entry.job_id] = (commit.sequence, entry.state, face, moments, is_large)
        if known is None or known[0] != commit.expected or known[2] != face or claim.state is None:
            return known, 3 if known is None and commit.expected <= 0 else 4, row_of(claim)
        # A bytearray: the driver takes that as it is, while it looks for an adapter of bytes.
        turn = (
            commit.sequence, entry.execute_number, entry.request_counts, entry.missed, entry.live,
            entry.waiting, bytearray(entry.latest), bytearray(claim.state), commit.expected, entry.uid,
        )  # fmt: skip
        if entry.state is not known[1]:
            return known, 2, (entry.job_id, entry.state._value_, *moments, *turn)
        if moments != known[3]:
            return known, 1, (entry.job_id, *moments, *turn)
        return known, 0, (entry.job_id, *turn)

    def _drop_oldest(self) -> None:
        known = self._known
        if len(known) > self._most:
            for oldest in list(islice(known, len(known) - self._most)):
                known.pop(oldest, None)


def _hash_of(entry: CatalogueEntry) -> int:
    return hash((_face_of(entry), *entry.labels.items()))
