"""Puts the room of services together: table, registry, directory, scan and drift."""

from collections.abc import Awaitable, Callable, Mapping

from scheduler_service.domain.moments import SECOND
from scheduler_service.engine.decision import Job
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.history.services import SqlServiceTable
from scheduler_service.persistence.state.catalogue import Catalogue
from scheduler_service.ports import Clock, Compile, Deliver
from scheduler_service.services.declarations import Declarations
from scheduler_service.services.directory import Directory
from scheduler_service.services.drift import Drift
from scheduler_service.services.instances import Instances
from scheduler_service.services.registry import Registry
from scheduler_service.services.scan import Scan
from scheduler_service.services.survey import Survey
from scheduler_service.settings.model import Services

ReadJob = Callable[[str], Awaitable[Job | None]]
Read = Callable[[str, int], Awaitable[bytes | None]]


class ServiceRoom:
    """The room of one process. Before `attach` there is nobody to deliver to: the host needs the sender, the
    sender the directory.
    """

    scan: Scan
    drift: Drift

    def __init__(self, *, database: HistoryDatabase, settings: Services, clock: Clock, tenant: str) -> None:
        self._table = SqlServiceTable(database=database)
        self._clock = clock
        instances = Instances(offline_after=round(settings.offline_seconds * SECOND))
        self.registry = Registry(table=self._table, instances=instances, clock=clock)
        static = {name: bases[0] for name, bases in settings.static.items() if bases}
        self.directory = Directory(registry=self.registry, static=static, clock=clock, tenant=tenant)

    async def attach(
        self,
        *,
        deliver: Deliver,
        read_job: ReadJob,
        catalogue: Catalogue,
        definition: Read,
        compile_text: Compile,
    ) -> None:
        """Reads the services that are known, and binds the scan to the jobs. Raises StoreUnavailable."""
        await self.registry.load()
        survey = Survey(
            declarations=Declarations(registry=self.registry),
            table=self._table,
            entries=catalogue.some,
            definition=definition,
            read_job=read_job,
            compile_text=compile_text,
            clock=self._clock,
        )
        self.scan = Scan(
            registry=self.registry, table=self._table, survey=survey, deliver=deliver, clock=self._clock
        )
        self.drift = Drift(survey=survey)

    async def check_timers(self) -> Mapping[str, int]:
        """`system://check-timers`. Raises StoreError."""
        return await self.scan()

    async def close(self) -> None:
        """Ends the table's thread."""
        await self._table.close()
