"""A job store whose contexts of qos 1 lie in a store of their own."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from scheduler_service.engine.document_bytes import (
    APART,
    is_apart,
    name_version,
    read_version,
    without_contexts,
)
from scheduler_service.persistence.common.fault_points import FaultPoint, FaultPoints
from scheduler_service.ports.errors import StoreError, StoreUnavailable, StoreUncertain
from scheduler_service.ports.log import Log
from scheduler_service.ports.state import Commit, Contexts, OpenJob, OpenStore, OwnedStore, StoredJob
from scheduler_service.telemetry.metrics.metric_list import Sample

COUNT_BITS = 32
DROPS_AT_ONCE = 200
MOST_UNUSED = 10_000
"""Of so many jobs it is known what is to be removed; what is forgotten is removed after the next start."""

Read = Callable[[], Awaitable[StoredJob | None]]
replace = msgspec.structs.replace


class ApartCommit(msgspec.Struct, frozen=True, gc=False):
    """A commit as its store gets it; `version` of its contexts, None: it has none."""

    commit: Commit
    version: int | None = None


class JobVersions(msgspec.Struct, gc=False):
    """Of one job: `kept` may be named by its row, `unused` are not any more, and are to be removed.

    `left` are those of other processes, which the next commit here makes unused.
    """

    kept: list[int] = []
    unused: list[int] = []
    left: list[int] = []


class ContextKeeper:
    """The contexts of the jobs of one process. `start`: the number of this start; None: drawn.

    For each commit: `put`, then the commit of what it returned, then `settle`.
    """

    def __init__(
        self, *, contexts: Contexts, log: Log, faults: FaultPoints | None = None, start: int | None = None
    ) -> None:
        self._contexts = contexts
        self._log = log
        self._faults = faults
        self._start = secrets.randbits(64) if start is None else start
        self._count = 0
        self._jobs: dict[str, JobVersions] = {}
        self._unused: dict[str, list[int]] = {}
        self._dropping: asyncio.Task[None] | None = None

    def concerns(self, commit: Commit) -> bool:
        """Whether `put` and `settle` have anything to do for it: not where all of the job is of qos 0."""
        return commit.qos != 0 or commit.entry.job_id in self._jobs

    async def put(self, commit: Commit) -> ApartCommit:
        """What is to be committed in place of `commit`: its contexts are durable, apart from the document.

        Raises StoreUnavailable: they are not, and it must not be committed.
        """
        bare = None if commit.document is None or commit.qos == 0 else without_contexts(commit.document)
        if commit.document is None or bare is None:
            return ApartCommit(commit)
        job_id = commit.entry.job_id
        versions = self._jobs.setdefault(job_id, JobVersions())
        versions.unused += self._unused.pop(job_id, ())
        unused = tuple(versions.unused)
        version = self._next_version()
        versions.kept.append(version)
        try:
            self._before()
            others = [*versions.kept[:-1], *versions.left]
            await self._contexts.put(job_id, version, commit.document, unused, others)
            self._after()
        except StoreError as error:
            self._give_up(job_id, version)
            raise StoreUnavailable(str(error), is_public=error.is_public) from error
        versions.unused = [one for one in versions.unused if one not in unused]
        return ApartCommit(replace(commit, document=name_version(version, bare)), version)

    def settle(self, kept: ApartCommit, error: StoreError | None) -> None:
        """What the store said of the commit. Where it does not know, all that the row may name is kept."""
        job_id = kept.commit.entry.job_id
        versions = self._jobs.get(job_id)
        if versions is None or isinstance(error, StoreUncertain):
            return
        if error is not None:
            if kept.version is not None:
                self._give_up(job_id, kept.version)
            return
        versions.unused += [one for one in (*versions.kept, *versions.left) if one != kept.version]
        versions.left = []
        versions.kept = [one for one in versions.kept if one == kept.version]
        if kept.version is None:
            self._drop_later(job_id)

    async def load(self, read: Read) -> StoredJob | None:
        """The job that `read` reads, with its contexts. Raises StoreUnavailable.

        Where the store of contexts has lost them the job comes without, and its executions, which cannot go
        on, end as `lost`. Where it cannot be reached nothing is known, and the job does not come.
        """
        stored = await read()
        while stored is not None and stored.document is not None and is_apart(stored.document):
            job_id = stored.entry.job_id
            version, bare = read_version(stored.document)
            versions = self._jobs.setdefault(job_id, JobVersions())
            if version not in versions.kept:
                versions.kept.append(version)
            content = await self._contexts.get(job_id, version)
            if content is not None:
                return replace(stored, document=content)
            again = await read()  # the job may have had a turn meanwhile
            if again is not None and again.document == stored.document:
                self._log("contexts_lost", jobId=job_id)
                return replace(stored, document=bare)
            stored = again
        return stored

    async def look(self, job_id: str) -> None:
        """Finds what other processes have put for a job that was loaded just now, and its row does not name.

        The next commit here makes it unused: whoever has put it for a turn that is not durable yet loses his
        claim to that one, and what is put behind it is not found now. Never raises.
        """
        versions = self._jobs.get(job_id, JobVersions())
        versions.left = []
        try:
            found = await self._contexts.find(job_id)
        except StoreError:
            return  # the next process that takes the job finds it
        own = (one for one in found if one >> COUNT_BITS != self._start)
        versions.left = [one for one in own if one not in versions.kept]
        if versions.left:
            self._jobs[job_id] = versions

    def find_unused(self, stored: StoredJob | None, versions: Iterable[int]) -> list[int]:
        """Those of a job's `versions` that an earlier start has left, and its row does not name."""
        document = None if stored is None else stored.document
        named = read_version(document)[0] if document is not None and is_apart(document) else -1
        return [one for one in versions if one != named and one >> COUNT_BITS != self._start]

    def drop(self, job_id: str, versions: Sequence[int]) -> None:
        """Removes versions that no row names, some time."""
        if versions:
            self._unused.setdefault(job_id, []).extend(versions)
            while len(self._unused) > MOST_UNUSED:
                del self._unused[next(iter(self._unused))]
            self._begin_dropping()

    async def close(self) -> None:
        """Returns when what is unused was removed, or cannot be."""
        self._begin_dropping()
        if self._dropping is not None:
            await self._dropping

    def _begin_dropping(self) -> None:
        if self._unused and self._dropping is None:
            self._dropping = asyncio.ensure_future(self._drop())

    async def _drop(self) -> None:
        """Removes what there is to remove, many at a time. After an error the next `drop` tries it again."""
        try:
            while self._unused:
                jobs = list(self._unused.items())[:DROPS_AT_ONCE]
                for job_id, _ in jobs:
                    del self._unused[job_id]
                work = (self._contexts.drop(job_id, versions) for job_id, versions in jobs)
                verdicts = await asyncio.gather(*work, return_exceptions=True)
                left = [job for job, verdict in zip(jobs, verdicts, strict=True) if verdict is not None]
                for job_id, versions in left:
                    self._unused.setdefault(job_id, []).extend(versions)
                if left:
                    return
        finally:
            self._dropping = None

    def _drop_later(self, job_id: str) -> None:
        self.drop(job_id, self._jobs.pop(job_id).unused)

    def _give_up(self, job_id: str, version: int) -> None:
        """No row will name `version`; its put may still arrive after its error."""
        versions = self._jobs.get(job_id)
        if versions is not None and version in versions.kept:
            versions.kept.remove(version)
            versions.unused.append(version)
            if not (versions.kept or versions.left):
                self._drop_later(job_id)

    def _next_version(self) -> int:
        self._count += 1
        return self._start << COUNT_BITS | self._count

    def _before(self) -> None:
        if self._faults is not None:
            self._faults.before(FaultPoint.CONTEXTS)

    def _after(self) -> None:
        if self._faults is not None:
            self._faults.after(FaultPoint.CONTEXTS)


class WholeStore(OpenStore, Protocol):
    """A store of jobs that tells its figures."""

    def samples(self, *, is_away: bool = False) -> Iterable[Sample]:
        """The figures of its transactions, and whether it is up, which it is not while it `is_away`."""


class ListedContexts(Contexts, Protocol):
    """Contexts that can be listed."""

    def pages(self) -> AsyncIterator[list[tuple[str, list[int]]]]:
        """All jobs that have contexts, with their versions. Raises StoreUnavailable."""

    async def close(self) -> None:
        """Ends the connection."""


class ApartTurns:
    """`ports.state.OwnedStore` over `store`: what is not about contexts goes there as it is."""

    def __init__(self, *, store: OwnedStore, keeper: ContextKeeper) -> None:
        self._turns = store
        self._keeper = keeper
        self.definition, self.recall = store.definition, store.recall
        self.remember, self.remember_first = store.remember, store.remember_first
        self.due_wall, self.due_steady = store.due_wall, store.due_steady
        self.settle, self.deliveries = store.settle, store.deliveries
        self.unwritten, self.written = store.unwritten, store.written

    @property
    def commits_waiting(self) -> int:
        return self._turns.commits_waiting

    async def load(self, job_id: str) -> StoredJob | None:
        return await self._keeper.load(lambda: self._turns.load(job_id))

    def commit(self, commit: Commit) -> Awaitable[None]:
        if self._keeper.concerns(commit):
            return self._commit(commit)
        return self._turns.commit(commit)

    async def commit_all(self, commits: Sequence[Commit]) -> Sequence[StoreError | None]:
        prepared = await asyncio.gather(*map(self._try_put, commits))
        ready = [one for one in prepared if isinstance(one, ApartCommit)]
        verdicts = iter(await self._turns.commit_all([one.commit for one in ready]))
        found: list[StoreError | None] = []
        for one in prepared:
            if isinstance(one, StoreError):
                found.append(one)
                continue
            verdict = next(verdicts)
            self._keeper.settle(one, verdict)
            found.append(verdict)
        return found

    async def open_jobs(self, after: str, limit: int, marks: Sequence[bytes]) -> list[OpenJob]:
        """One whose contexts lie apart counts as marked: what is in them is not known."""
        return await self._turns.open_jobs(after, limit, (*marks, APART) if marks else ())

    async def close(self) -> None:
        await self._turns.close()
        await self._keeper.close()

    async def _commit(self, commit: Commit) -> None:
        prepared = await self._keeper.put(commit)
        try:
            await self._turns.commit(prepared.commit)
        except StoreError as error:
            self._keeper.settle(prepared, error)
            raise
        self._keeper.settle(prepared, None)

    async def _try_put(self, commit: Commit) -> ApartCommit | StoreError:
        try:
            return await self._keeper.put(commit)
        except StoreError as error:
            return error


class ApartStore(ApartTurns):
    """`ports.state.OpenStore` over `store`, with `contexts`, which it closes.

    `sweep_after` (seconds; None: not) this start it removes what earlier ones have put and no row names, of
    the jobs for which `is_own`, which are this process's alone.
    """

    def __init__(
        self,
        *,
        store: WholeStore,
        contexts: ListedContexts,
        keeper: ContextKeeper,
        is_own: Callable[[str], bool],
        sweep_after: float | None,
    ) -> None:
        super().__init__(store=store, keeper=keeper)
        self._store = store
        self._contexts = contexts
        self._is_own = is_own
        self._sweeping: asyncio.Task[None] | None = None
        if sweep_after is not None:
            self._sweeping = asyncio.ensure_future(self._sweep(sweep_after))
        self.boot, self.node_id = store.boot, store.node_id
        self.catalogue, self.queues = store.catalogue, store.queues
        self.samples = store.samples
        self.clock_skew, self.save_clock_skew = store.clock_skew, store.save_clock_skew
        self.forget = store.forget

    async def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        await super().close()
        await self._contexts.close()

    async def _sweep(self, delay: float) -> None:
        await asyncio.sleep(delay)
        try:
            async for page in self._contexts.pages():
                for job_id, versions in page:
                    if self._is_own(job_id):
                        stored = await self._store.load(job_id)
                        self._keeper.drop(job_id, self._keeper.find_unused(stored, versions))
        except StoreError:
            return  # the next start does it
