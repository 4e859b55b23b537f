"""How a node reaches jobs: an event goes through the sidecar to wherever the job's actor lives."""

import asyncio
from collections.abc import Sequence

from scheduler_service.domain.events import AlarmRang, Created
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.replies import Reply
from scheduler_service.domain.wire import Holder
from scheduler_service.engine.decision import Job
from scheduler_service.engine.snapshot import decode
from scheduler_service.engine.status import revisions
from scheduler_service.hosts.dapr.sidecar import Sidecar
from scheduler_service.hosts.job_cache import ProgramCache
from scheduler_service.hosts.messages import read_reply, write_ask
from scheduler_service.hosts.tasks import Tasks
from scheduler_service.ports.cluster import ClusterStore
from scheduler_service.ports.delivery import Command, Definition
from scheduler_service.ports.errors import StoreError

AT_ONCE = 64
# A ring says only "look again": one that hangs on a dead node is better repeated. In seconds.
RING_LIMIT = 5.0


class ActorClient:
    """Delivers events to jobs wherever they live (`ports.Deliver`), and reads them there."""

    def __init__(
        self, *, sidecar: Sidecar, shared: ClusterStore, programs: ProgramCache, holder: Holder, tasks: Tasks
    ) -> None:
        self._sidecar = sidecar
        self._shared = shared
        self._programs = programs
        self._holder = holder
        self._tasks = tasks

    async def __call__(self, job_id: str, command: Command) -> Reply:
        """Takes `event` to the job. Raises StoreError; what is kept under a key is the reply as JSON."""
        told = read_reply(await self._sidecar.invoke(job_id, write_ask(command)))
        assert told.reply is not None, "an event has a reply"
        return told.reply

    async def deliver(self, job_id: str, command: Command) -> Reply:
        """The same from an errand, which is no task: limits of time need one. Raises StoreError."""
        reply: Reply = await self._tasks.start(self(job_id, command))
        return reply

    async def ring(self, job_id: str) -> None:
        """Takes AlarmRang to the job, within 5 s. Raises StoreError."""
        read_reply(await self._sidecar.invoke(job_id, write_ask(Command(AlarmRang())), limit=RING_LIMIT))

    async def create_all(self, definitions: Sequence[Definition]) -> Sequence[Reply | StoreError]:
        """Takes the turn Created for each, an error for its reply; those of one job in order."""
        lines: dict[str, list[int]] = {}
        for place, definition in enumerate(definitions):
            lines.setdefault(definition.program.job_id, []).append(place)
        answers: dict[int, Reply | StoreError] = {}
        places = asyncio.Semaphore(AT_ONCE)

        async def create(line: list[int]) -> None:
            async with places:
                for place in line:
                    answers[place] = await self._create(definitions[place])

        await asyncio.gather(*map(create, lines.values()))
        return [answers[place] for place in range(len(definitions))]

    async def read(self, job_id: str) -> Job | None:
        """The job as it stands after its latest turn, contexts of qos 0 as well. Raises StoreError."""
        row = await self._shared.find(job_id)
        if row is None or row.entry.state is JobState.DESTROYED:
            return None  # asked by id, actors of jobs that never were would fill the memory
        told = read_reply(await self._sidecar.invoke(job_id, write_ask(None)))
        if not told.document:
            return None
        document = decode(told.document)
        programs = await self._programs.load(document.head.uid, revisions(document))
        return Job(document, programs, self._holder)

    async def _create(self, definition: Definition) -> Reply | StoreError:
        try:
            return await self(definition.program.job_id, Command(Created(uid="", key=b""), definition))
        except StoreError as error:
            return error
