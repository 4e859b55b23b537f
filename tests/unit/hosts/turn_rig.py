"""A turn whose ports are recorded in the order of their calls."""

from collections.abc import Mapping
from typing import Any

from scheduler_service.domain.audit_acts import Act
from scheduler_service.domain.effects import Call, Effect
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Due
from scheduler_service.domain.replies import Reply
from scheduler_service.domain.turn_events import CallEnded, Created, Event
from scheduler_service.domain.wire import Answer, Holder
from scheduler_service.engine.program import Program
from scheduler_service.hosts.clock import TimedRelease
from scheduler_service.hosts.host_dependencies import DEFAULT_LIMITS, Core, TurnParts
from scheduler_service.hosts.job_cache import CachedJob, OpenBytes
from scheduler_service.hosts.turn import Turn
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.delivery import Command
from scheduler_service.security.history_masking import Masking
from tests.manual_clock import ManualClock
from tests.unit.hosts.house import CORE, SKEW, START, MemoryHistory, describe
from tests.unit.hosts.memory_store import Disk, Entry, MemoryStore


class JournalAlarms:
    """Alarms that only write down what they are told."""

    def __init__(self, journal: list[Entry]) -> None:
        self.journal = journal

    async def expect(self, job_id: str, due: Due) -> None:
        self.journal.append(("expect", due))

    async def arm(self, job_id: str, due: Due) -> None:
        self.journal.append(("arm", due))

    async def hold(self, job_id: str, due: Due) -> None:
        self.journal.append(("hold", due))

    def again(self, job_id: str, pause: int = 1_000) -> None:
        self.journal.append(("again",) if pause == 1_000 else ("again", pause))


class Bench:
    """One job, and the turns that are taken on it."""

    def __init__(
        self,
        disk: Disk | None = None,
        boot: int = 1,
        core: Core = CORE,
        masking: Masking | None = None,
        open_bytes: OpenBytes | None = None,
    ) -> None:
        masking = masking or Masking()
        self.journal: list[Entry] = []
        self.disk = disk or Disk()
        self.store = MemoryStore(self.disk, self.journal)
        self.history = MemoryHistory(self.store, self.journal)
        self.clock = ManualClock(wall=START, skew=SKEW)
        self.effects: list[Effect] = []
        self.states: list[tuple[JobState | None, JobState]] = []
        self.open_bytes = open_bytes or OpenBytes(most=DEFAULT_LIMITS.open_bytes)
        self.turn = Turn(
            TurnParts(
                core=core,
                history=self.history,
                clock=self.clock,
                redact=masking.redact_all,
                reads_bodies=masking.reads_bodies,
                new_identity=lambda: (f"uid{boot}", b"k" * 32),
                observe_job=self._observe,
            ),
            store=self.store,
            alarms=JournalAlarms(self.journal),
            act=self._act,
            alive=lambda uid: (),
            holder=Holder("node", str(boot)),
            boot=boot,
            open_bytes=self.open_bytes,
            wait_until=TimedRelease(clock=self.clock).wait_until,
        )
        self.cached = CachedJob("job")

    async def run(self, event: Event, **more: Any) -> Reply:
        """One turn."""
        return await self.turn.run(self.cached, Command(event, **more))

    async def create(self, *, act: Act | None = None, **members: Any) -> Reply:
        """A life begins."""
        return await self.run(Created("", b""), definition=describe(**members), act=act)

    def calls(self) -> list[Call]:
        """Every call asked for."""
        return [effect for effect in self.effects if isinstance(effect, Call)]

    async def answer(self, status: int = 200, body: bytes = b"{}") -> Reply:
        """The newest call is answered."""
        return await self.run(CallEnded(self.calls()[-1].token, Answer(status, body=body)))

    def names(self) -> list[object]:
        """The journal's first words."""
        return [entry[0] for entry in self.journal]

    def _observe(self, before: CatalogueEntry | None, after: CatalogueEntry) -> None:
        self.states.append((None if before is None else before.state, after.state))

    def _act(self, job_id: str, effects: tuple[Effect, ...], programs: Mapping[int, Program]) -> None:
        self.journal.append(("act",))
        self.effects.extend(effects)
