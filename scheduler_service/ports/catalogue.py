"""What lists, searches and statistics read of the jobs (SPEC section 10): values and their port.

A list is read page by page; a cursor names the last job of a page, so jobs that are created or destroyed
meanwhile do not move others from one page to the next.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from scheduler_service.domain.execution import ExecutionState, JobState
from scheduler_service.domain.moments import Now

JOBS, WAITS = "tenant_jobs", "tenant_waiting"
"""Limits of a tenant: of jobs that live, and of executions that wait."""
LIVING = (JobState.ACTIVE, JobState.PAUSED, JobState.FINISHED)


class LastOutcome(StrEnum):
    """What a job's newest execution came to, or that it has not ended yet; NONE: there has been none."""

    SUCCEEDED = "succeeded"
    TERMINATED = "terminated"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    RUNNING = "running"
    WAITING = "waiting"
    NONE = "none"


LAST_OUTCOMES: Mapping[ExecutionState, LastOutcome] = {
    ExecutionState.SUCCEEDED: LastOutcome.SUCCEEDED,
    ExecutionState.TERMINATED: LastOutcome.TERMINATED,
    ExecutionState.CANCELLED: LastOutcome.CANCELLED,
    ExecutionState.SKIPPED: LastOutcome.SKIPPED,
    ExecutionState.PROCESSING: LastOutcome.RUNNING,
    ExecutionState.FAILED: LastOutcome.RUNNING,
    ExecutionState.SCHEDULED: LastOutcome.WAITING,
    ExecutionState.ENQUEUED: LastOutcome.WAITING,
}
"""By the state of the newest execution; RUNNING and WAITING as `/stats` counts executions."""

MOST_COUNTED = 100_000
"""So many jobs are counted for a `tally`; one that fits beside them is not."""

LONGEST_READ = 65_536
"""A definition with more bytes is read alone, not with those of a list."""


class CatalogueEntry(msgspec.Struct, frozen=True, gc=False):
    """A job as lists and searches show it. Times are wall ms."""

    job_id: str
    uid: str
    tenant: str
    job_name: str
    object_id: str | None
    creator: str
    kind: str
    state: JobState
    revision: int
    labels: dict[str, str]
    parent_job: str | None
    parent_execution: int | None
    next_fire: int | None
    execute_number: int
    request_counts: int
    missed: int
    latest: bytes
    created_at: int
    updated_at: int
    live: int = 0
    waiting: int = 0
    system: bool = False


class JobSort(StrEnum):
    """The order of a list of jobs; equal ones are in order of jobId, jobs without the value come last."""

    JOB_ID = "jobId"
    JOB_NAME = "jobName"
    CREATED_AT = "createdAt"
    UPDATED_AT = "updatedAt"
    NEXT_FIRE_TIME = "nextFireTime"


class JobQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs are listed. All conditions must hold; None or empty is no condition.

    `tenant` None: all tenants. All `labels` must be present. `text` is searched in jobId, jobName, objectId,
    creator and the values of labels, ignoring the case of ASCII letters. `system` None: ordinary and system
    jobs. `limit` is at least 1; the caller checks its bounds. `cursor` is valid for one order: the same
    `sort` and `descending`.
    """

    tenant: str | None = "default"
    states: tuple[JobState, ...] = LIVING
    kind: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    creator: str | None = None
    object_id: str | None = None
    parent_job: str | None = None
    parent_execution: int | None = None
    text: str | None = None
    system: bool | None = False
    last_outcome: LastOutcome | None = None
    sort: JobSort = JobSort.JOB_ID
    descending: bool = False
    limit: int = 50
    cursor: str | None = None


class JobPage(msgspec.Struct, frozen=True):
    """A page of a list; `next_cursor` None: it is the last one."""

    items: tuple[CatalogueEntry, ...]
    next_cursor: str | None = None


class Revision(msgspec.Struct, frozen=True, gc=False):
    """A definition: the text as posted, valid from `created_at` (wall ms)."""

    uid: str
    job_id: str
    revision: int
    created_at: int
    text: bytes


class JobCounts(msgspec.Struct, frozen=True):
    """Figures of `/stats`, without the system's jobs. `due`: those whose planned firing is due and not begun.

    `waiting` and `running` count executions: scheduled or enqueued; processing or before a retry.
    """

    due: int
    waiting: int
    running: int
    by_state: dict[JobState, int]

    @property
    def used(self) -> dict[str, int]:
        """Of one tenant, by the names of the limits that are about them."""
        return {JOBS: sum(self.by_state.get(state, 0) for state in LIVING), WAITS: self.waiting}


class JobTally(msgspec.Struct, frozen=True):
    """How many jobs fit a query, by state, kind and newest execution; `is_capped`: there are more."""

    total: int = 0
    is_capped: bool = False
    by_state: dict[JobState, int] = {}
    by_kind: dict[str, int] = {}
    by_outcome: dict[LastOutcome, int] = {}


def tally_of(rows: Iterable[tuple[JobState, str, LastOutcome, int]], *, is_capped: bool) -> JobTally:
    """The tally of so many jobs of a state, a kind and a newest execution."""
    states: Counter[JobState] = Counter()
    kinds: Counter[str] = Counter()
    outcomes: Counter[LastOutcome] = Counter()
    for state, kind, outcome, count in rows:
        states[state] += count
        kinds[kind] += count
        outcomes[outcome] += count
    return JobTally(states.total(), is_capped, dict(states), dict(kinds), dict(outcomes))


class Catalogue(Protocol):
    """Reads of the catalogue. A read sees every commit that ended before it began."""

    async def get(self, job_id: str) -> CatalogueEntry | None:
        """The entry, of a destroyed job too, or None. Raises StoreUnavailable."""

    async def some(self, job_ids: Sequence[str]) -> Mapping[str, CatalogueEntry]:
        """The entries of those of `job_ids` that exist, destroyed ones too. Raises StoreUnavailable."""

    async def find(self, uid: str) -> CatalogueEntry | None:
        """The entry of the job whose current life is `uid`, or None. Raises StoreUnavailable."""

    async def list(self, query: JobQuery) -> JobPage:
        """A page of jobs. Raises CursorError for a cursor of another list, StoreUnavailable."""

    async def tally(self, query: JobQuery) -> JobTally:
        """How many jobs fit, whatever `limit`, `cursor` and `sort` are, of MOST_COUNTED at most.

        It reads the jobs that fit one by one, of the tenant or of its states. Raises StoreUnavailable.
        """

    async def definitions(self, job_ids: Sequence[str]) -> Mapping[str, bytes]:
        """The present definitions of those of `job_ids` that exist, as posted, but those over LONGEST_READ.

        Raises StoreUnavailable.
        """

    async def revisions(self, uid: str, *, after: int, limit: int) -> Sequence[Revision]:
        """Definitions of one life with a revision above `after`, in order. Raises StoreUnavailable."""

    async def children(
        self, parent_job: str, parent_execution: int | None, *, after: str, limit: int
    ) -> Sequence[CatalogueEntry]:
        """Jobs created by an execution (None: any) of `parent_job`, destroyed ones too, by id.

        They come without their labels, as nobody needs them.
        """

    async def upcoming(
        self,
        start: int,
        end: int,
        limit: int,
        *,
        tenant: str | None,
        creator: str | None = None,
        labels: Sequence[tuple[str, str]] = (),
        with_labels: bool = True,
    ) -> Sequence[CatalogueEntry]:
        """Ordinary jobs that fire next in `start` to `end` (wall, both included), earliest first.

        Of this tenant, with this creator and all these labels; None: of each.
        Whoever asks for many does without their labels, which may take a MiB each.
        """

    async def counts(self, now: Now, *, tenant: str | None) -> JobCounts:
        """The numbers of jobs and executions by state. Raises StoreUnavailable."""
