"""What lists, searches and statistics read of the jobs (SPEC section 10): values and their port.

A list is read page by page; a cursor names the last job of a page, so jobs that are created or destroyed
meanwhile do not move others from one page to the next.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Now

LIVING = (JobState.ACTIVE, JobState.PAUSED, JobState.FINISHED)


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

    `tenant` None: all tenants. All `labels` must be present. `text` is searched in jobId, jobName and
    objectId, ignoring the case of ASCII letters. `system` None: ordinary and system jobs. `limit` is at least
    1; the caller checks its bounds. `cursor` is valid for one order: the same `sort` and `descending`.
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
    """Figures of `/stats`. `due`: jobs whose planned firing is due and has not begun.

    `waiting` and `running` count executions: scheduled or enqueued; processing or before a retry.
    """

    due: int
    waiting: int
    running: int
    by_state: dict[JobState, int]


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

    async def revisions(self, uid: str, *, after: int, limit: int) -> Sequence[Revision]:
        """Definitions of one life with a revision above `after`, in order. Raises StoreUnavailable."""

    async def children(
        self, parent_job: str, parent_execution: int | None, *, after: str, limit: int
    ) -> Sequence[CatalogueEntry]:
        """Jobs created by an execution (None: any) of `parent_job`, destroyed ones too, by id."""

    async def upcoming(
        self, start: int, end: int, limit: int, *, tenant: str | None
    ) -> Sequence[CatalogueEntry]:
        """Ordinary jobs that fire next in `start` to `end` (wall, both included), earliest first."""

    async def counts(self, now: Now, *, tenant: str | None) -> JobCounts:
        """The numbers of jobs and executions by state. Raises StoreUnavailable."""
