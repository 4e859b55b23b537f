"""After a start under other settings, zones or variables: what followed from them is computed anew.

The timers of all jobs are planned again, and the jobs that cannot run as they stand are named. From what the
stored moments follow is noted as a label of the system job `check-timers`, once all jobs have been looked at:
a start without a change looks at none, and one that is cut off is repeated by the next.
"""

import asyncio
import hashlib
from collections.abc import Callable, Collection, Sequence
from functools import cached_property

from scheduler_service import __version__
from scheduler_service.domain.errors import Problem
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.domain.turn_events import Replanned, Updated
from scheduler_service.engine.program import Program, Surroundings
from scheduler_service.engine.warnings import HasService, find_obstacles
from scheduler_service.pacing.slices import Slices
from scheduler_service.ports.catalogue import Catalogue, CatalogueEntry, JobQuery
from scheduler_service.ports.delivery import Command, Compile, Definition, Deliver
from scheduler_service.ports.errors import StoreError, explain
from scheduler_service.ports.log import Log
from scheduler_service.settings import Settings
from scheduler_service.system_jobs.system_job_definitions import CHECK_TIMERS, FOLLOWS, system_definitions
from scheduler_service.timing.timer import TimerKind
from scheduler_service.timing.zones import digest_zones

PAGE = 50
MOST_KEPT = 1_000
"""So many jobs that cannot run are kept by name; of the others each reads its own problems."""
MOST_TOLD = 100
"""So many are lines of the log."""
WAIT_SECONDS = 0.5
"""So long a start waits for the review; a longer one goes on beside the work."""
INCOMPLETE = "!"
"""Behind what is noted where jobs cannot run or be reached: the next start looks at them again."""


def basis_of(
    surroundings: Surroundings, settings: Settings, calendars: Collection[tuple[str, str]], named: object = ()
) -> str:
    """From what stored moments and compiled definitions follow, as a digest: no value can be read from it.

    `calendars`: tenant and name of each. Their days are no part of it: jobs follow these by themselves.
    `named`: the names of secrets and services.
    """
    environments = settings.env | {DEFAULT_TENANT: surroundings.environment}
    variables = sorted(
        (tenant, name, value.lower()[:6])
        for tenant, environment in environments.items()
        for name, value in environment.items()
    )
    parts = (
        __version__, digest_zones(), surroundings.default_zone, surroundings.gateway, surroundings.topics,
        [one for one in variables if one[2] in ("queue:", "servic", "topic:", "http:/")],
        [one[:2] for one in variables], settings.egress, sorted(calendars), named,
    )  # fmt: skip
    return hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()


def first_problem(program: Program, has_service: HasService | None = None) -> Problem | None:
    """Why a job of this definition cannot run now; None: it can (`warnings.find_obstacles`)."""
    return next(find_obstacles(program, has_service), None)


class UnfitJobs:
    """The jobs that cannot run as they stand, as far as the review has seen them."""

    def __init__(self, *, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._known: dict[str, tuple[str, int, Problem]] = {}

    def note(self, entry: CatalogueEntry, problem: Problem) -> None:
        """Keeps the first problem of a job."""
        if len(self._known) < MOST_KEPT:
            self._known[entry.job_id] = entry.uid, entry.revision, problem

    def forget(self, entry: CatalogueEntry) -> None:
        """It can run (again)."""
        self._known.pop(entry.job_id, None)

    def find(self, entry: CatalogueEntry) -> Problem | None:
        """The first problem of the job, unless it was changed since."""
        uid, revision, problem = self._known.get(entry.job_id, ("", 0, None))
        return problem if (uid, revision) == (entry.uid, entry.revision) else None

    async def list(self) -> list[tuple[str, Problem]]:
        """All, those that were changed or destroyed left out. Raises StoreUnavailable."""
        living = await self._catalogue.some(list(self._known)) if self._known else {}
        for job_id in list(self._known):
            entry = living.get(job_id)
            if entry is None or entry.state is JobState.DESTROYED or self.find(entry) is None:
                self._known.pop(job_id, None)
        return [(job_id, problem) for job_id, (_, _, problem) in self._known.items()]


class Review:
    """Looks once at all jobs of this service, where what they follow from is not what it was."""

    def __init__(
        self,
        *,
        settings: Settings,
        basis: Callable[[], str],
        catalogue: Catalogue,
        deliver: Deliver,
        compile_text: Compile,
        log: Log,
        find_problem: Callable[[Program], Problem | None] = first_problem,
        read_named: Callable[[], object] = tuple,
    ) -> None:
        self.unfit = UnfitJobs(catalogue=catalogue)
        self._find_problem = find_problem
        self._read_named = read_named
        self._named = read_named()
        self._settings = settings
        self._read_basis = basis
        self._catalogue = catalogue
        self._deliver = deliver
        self._compile = compile_text
        self._log = log
        self._untold = MOST_TOLD
        self._task: asyncio.Task[None] | None = None

    @cached_property
    def _basis(self) -> str:
        """That of the start."""
        return self._read_basis()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way."""
        return self._task is None or self._task.done()

    async def read_noted(self) -> str:
        """What the last complete review has noted; in a new store the present. Raises StoreError."""
        entry = await self._catalogue.get(CHECK_TIMERS)
        return self._basis if entry is None else entry.labels.get(FOLLOWS, INCOMPLETE)

    async def start(self, noted: str) -> None:
        """Begins where `noted` is not the present; returns when it is done, or soon."""
        if noted != self._basis:
            self._task = asyncio.create_task(self._run())
            await asyncio.wait((self._task,), timeout=WAIT_SECONDS)

    async def list_unfit(self) -> list[tuple[str, Problem]]:
        """As `UnfitJobs.list`; where secrets or services came or went, after another look at all jobs.

        It is awaited no longer than by a start.
        """
        if self.is_idle and self._named != (named := self._read_named()):
            self._named = named
            self._task = asyncio.create_task(self._run(replans=False))
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=WAIT_SECONDS)
        return await self.unfit.list()

    async def stop(self) -> None:
        """Ends it; the next start repeats it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, *, replans: bool = True) -> None:
        try:
            are_all_fit = await self._look_at_all(replans=replans)
            if not replans:
                return
            follows = self._basis if are_all_fit else self._basis + INCOMPLETE
            (text, *_) = system_definitions(self._settings, follows)
            definition = Definition(text, await self._compile(text, DEFAULT_TENANT))
            await self._deliver(CHECK_TIMERS, Command(Updated(0, keeps_schedule=True), definition))
        except Exception as error:  # noqa: BLE001 - nobody awaits this task: a defect would end it unseen
            self._log("review_not_completed", error=explain(error))

    async def _look_at_all(self, *, replans: bool) -> bool:
        cursor, slices, are_fit = None, Slices(), True
        while True:
            page = await self._catalogue.list(JobQuery(tenant=None, system=None, limit=PAGE, cursor=cursor))
            texts = await self._catalogue.definitions([entry.job_id for entry in page.items])
            again: list[CatalogueEntry] = []
            for entry in page.items:
                text = texts.get(entry.job_id) or await self._read_large(entry)
                await slices.pause(len(text))
                are_fit = await self._is_fit(entry, text) and are_fit
                if entry.state is JobState.ACTIVE and entry.kind != TimerKind.EXTERNAL:
                    again.append(entry)
            are_fit = (not replans or await self._replan(again)) and are_fit
            cursor = page.next_cursor
            if cursor is None:
                return are_fit

    async def _read_large(self, entry: CatalogueEntry) -> bytes:
        """The definition of a job whose text is not read with others; b"" where there is none."""
        if entry.state is JobState.DESTROYED:
            return b""
        found = await self._catalogue.revisions(entry.uid, after=entry.revision - 1, limit=1)
        return found[0].text if found else b""

    async def _replan(self, entries: Sequence[CatalogueEntry]) -> bool:
        """Whether all could be planned again; one that cannot be read or reached keeps out no other."""
        # Together, so that their turns share a commit.
        asked = (self._deliver(one.job_id, Command(Replanned())) for one in entries)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        errors = [one for one in answers if isinstance(one, BaseException)]
        unknown = next((one for one in errors if not isinstance(one, StoreError)), None)
        if unknown is not None:
            raise unknown
        for error in errors[:1]:
            self._log("review_not_completed", error=str(error))
        return not errors

    async def _is_fit(self, entry: CatalogueEntry, text: bytes) -> bool:
        problem = self._find_problem(await self._compile(text, entry.tenant)) if text else None
        if problem is None:
            self.unfit.forget(entry)
            return True
        self.unfit.note(entry, problem)
        self._untold -= 1
        if self._untold >= 0:
            self._log("job_blocked", jobId=entry.job_id, error=problem.message)
        return False
