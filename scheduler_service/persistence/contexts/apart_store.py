"""A job store whose contexts of qos 1 lie in a store of their own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Protocol

from scheduler_service.engine.snapshot import APART
from scheduler_service.persistence.contexts.keeper import ApartCommit, ContextKeeper
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.state import Commit, Contexts, OpenJob, OpenStore, OwnedStore, StoredJob
from scheduler_service.telemetry.metrics.samples import Sample


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

    @property
    def commits_waiting(self) -> int:
        return self._store.commits_waiting

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
