"""What lists, searches and statistics may ask of the jobs (SPEC section 10): values and their port.

A list is read page by page; a cursor stands for the last job of a page, so a job that is created or
destroyed meanwhile moves no other from one page to the next.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Now

LIVING = (JobState.ACTIVE, JobState.PAUSED, JobState.FINISHED)


class CatalogueEntry(msgspec.Struct, frozen=True, gc=False):
    """What lists and searches know of a job. Times are wall ms; `due` is the next planned firing."""

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
    """By what a list of jobs is ordered; equals follow by jobId, jobs without the value come last."""

    JOB_ID = "jobId"
    JOB_NAME = "jobName"
    CREATED_AT = "createdAt"
    UPDATED_AT = "updatedAt"
    NEXT_FIRE_TIME = "nextFireTime"


class JobQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs are listed, all conditions together; None or empty asks nothing.

    `tenant` None: of all tenants. `labels` must all be there. `text` is searched, upper and lower case
    alike for ASCII, in jobId, jobName and objectId. `system` None: ordinary and system jobs. `limit` is at
    least 1; bounds are the caller's. `cursor` belongs to one order: the same `sort` and `descending`.
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
    """A page of a list; `next_cursor` None: the list ends here."""

    items: tuple[CatalogueEntry, ...]
    next_cursor: str | None = None


class Revision(msgspec.Struct, frozen=True, gc=False):
    """A definition as it was: the text as posted, valid from `created_at` (wall ms)."""

    uid: str
    job_id: str
    revision: int
    created_at: int
    text: bytes


class JobCounts(msgspec.Struct, frozen=True):
    """Figures of `/stats`. `due`: jobs whose planned firing has come and was not taken yet.

    `waiting` and `running` count executions: scheduled or enqueued; processing or before a retry.
    """

    due: int
    waiting: int
    running: int
    by_state: dict[JobState, int]


class Catalogue(Protocol):
    """Reads of the catalogue. What a commit wrote is seen by every read that begins after it."""

    async def get(self, job_id: str) -> CatalogueEntry | None:
        """The entry, of a destroyed job too, or None. Raises StoreUnavailable."""

    async def some(self, job_ids: Sequence[str]) -> Mapping[str, CatalogueEntry]:
        """The entries of those of `job_ids` that there are, destroyed ones too. Raises StoreUnavailable."""

    async def find(self, uid: str) -> CatalogueEntry | None:
        """The entry of the job whose present life is `uid`, or None. Raises StoreUnavailable."""

    async def list(self, query: JobQuery) -> JobPage:
        """A page of jobs. Raises CursorError for a cursor of another list, StoreUnavailable."""

    async def revisions(self, uid: str, *, after: int, limit: int) -> Sequence[Revision]:
        """Definitions of one life with a revision above `after`, in order. Raises StoreUnavailable."""

    async def children(
        self, parent_job: str, parent_execution: int | None, *, after: str, limit: int
    ) -> Sequence[CatalogueEntry]:
        """Jobs made by an execution (None: by any) of `parent_job`, destroyed ones too, by id."""

    async def upcoming(
        self, start: int, end: int, limit: int, *, tenant: str | None
    ) -> Sequence[CatalogueEntry]:
        """Ordinary jobs that fire next in `start` to `end` (wall, both included), earliest first."""

    async def counts(self, now: Now, *, tenant: str | None) -> JobCounts:
        """How many jobs and executions stand where. Raises StoreUnavailable."""
