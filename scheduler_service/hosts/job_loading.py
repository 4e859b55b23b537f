"""Brings jobs from the store into memory, each with the programs of its definitions."""

from scheduler_service.engine.program import Program
from scheduler_service.engine.snapshot import ContextsApart, SnapshotError
from scheduler_service.engine.status import revisions
from scheduler_service.hosts.host_parts import Core
from scheduler_service.hosts.job_cache import CachedJob, LoadedJob, has_open_executions
from scheduler_service.hosts.program_cache import ProgramCache
from scheduler_service.ports.errors import StateUnreadable
from scheduler_service.ports.state import StateStore


class JobLoading:
    """Loads the jobs of one store. `programs`: those of the definitions that were used last."""

    def __init__(self, *, store: StateStore, core: Core) -> None:
        self._store = store
        self._core = core
        self.programs = ProgramCache(read=store.definition, compiler=core.compile)

    async def take_in(self, cached: CachedJob, loaded: LoadedJob | None = None) -> None:
        """Makes `cached` what the store has of the job; `loaded`: what the caller has just read of it.

        Raises StateUnreadable, StoreUnavailable.
        """
        if loaded is None:
            loaded = await self._load(cached.job_id)
        stored, document = loaded.stored, loaded.document
        programs = dict[int, Program]()
        if document is not None:
            programs = await self.programs.load(document.head.uid, revisions(document))
            cached.program_bytes = self.programs.weight(document.head.uid, programs)
        cached.document, cached.programs = document, programs
        if stored is not None:
            cached.state_bytes = len(stored.document or b"")
            cached.entry = stored.entry
            cached.sequence = max(cached.sequence, stored.sequence, stored.used)
            cached.committed = 0 if document is None else stored.sequence
            cached.due = cached.durable_due = stored.due
        cached.cut_off = has_open_executions(document)
        cached.loaded = True

    async def _load(self, job_id: str) -> LoadedJob:
        stored = await self._store.load(job_id)
        if stored is None or stored.document is None:
            return LoadedJob(stored, None)
        try:
            return LoadedJob(stored, self._core.decode(stored.document))
        except ContextsApart as error:
            raise StateUnreadable(f"job {job_id}: {error}", is_public=True) from error
        except SnapshotError as error:  # this job does nothing, and the others go on
            raise StateUnreadable(
                f"job {job_id}: {error}; stop the service, run 'punctual db repair', "
                "and create the job again",
                is_public=True,
            ) from error
