"""Creates jobs without their actors, so that no sidecar is asked.

The claims of an array are written in groups; those of single creations together with all that waits when they
come. What is due soon waits in this process, all else is found by the sweep (decisions 52 and 59).
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.replies import Reply
from scheduler_service.domain.turn_events import Created
from scheduler_service.engine.program import Program
from scheduler_service.hosts.commit_builder import remember_reply
from scheduler_service.hosts.dapr.actor_client import ActorClient
from scheduler_service.hosts.dapr.first_turns import TakeDue, waits_at_creator
from scheduler_service.hosts.dapr.job_store import claim_of
from scheduler_service.hosts.dapr.node import HistoryWait, LocalJobs, NodeContext
from scheduler_service.hosts.host_parts import TurnParts
from scheduler_service.hosts.job_cache import LockedJob, PendingCommit
from scheduler_service.hosts.tasks import Tasks
from scheduler_service.hosts.turn import Turn
from scheduler_service.pacing.slices import Slices
from scheduler_service.ports.cluster import TurnClaim
from scheduler_service.ports.delivery import Command, Definition
from scheduler_service.ports.errors import StoreConflict, StoreError, StoreUncertain
from scheduler_service.ports.state import Commit
from scheduler_service.timing.durations import Duration
from scheduler_service.timing.timer import TimerKind

GROUP_SIZE = 250
SOON_MS = 2 * SECOND
"""A job that is created alone and due sooner is created by its actor, which would have to load it at once."""

Answer = Reply | StoreError


class DirectCreation:
    """Creates jobs without their actors where it can.

    It can where the database has nothing of a job, this node has it not in memory, and it does nothing at
    once. All others take the turn Created through `client`, so each has the reply of its actor. `client` does
    so too while this node is past its heartbeat, or stops. `expect` gets the jobs that wait here for their
    first moment.
    """

    def __init__(
        self,
        *,
        node: NodeContext,
        parts: TurnParts,
        local: LocalJobs,
        turn: Turn,
        client: ActorClient,
        expect: TakeDue,
        tasks: Tasks,
    ) -> None:
        self._store = node.cluster.store
        self._liveness = node.cluster.heartbeat.liveness
        self._holder = node.holder
        self._clock = node.clock
        self._jobs = local.cache
        self._alarms = local.alarms
        self._turn = turn
        self._history = parts.history
        self._observe_job = parts.observe_job
        self._client = client
        self._expect = expect
        self._tasks = tasks
        self._is_closed = False
        self._wait_for_history = HistoryWait(flush=parts.history.flush, clock=node.clock, log=node.log)

    async def create(self, job_id: str, command: Command) -> Reply:
        """The reply to Created. Raises StoreError. Goes on to its end if the caller is cancelled."""
        return await asyncio.shield(self._tasks.start(self._create_one(job_id, command)))

    async def create_all(self, definitions: Sequence[Definition], owner: str) -> Sequence[Answer]:
        """A reply for each, or the StoreError that its turn raised; those of one job in order.

        The jobs belong to the service `owner`; empty: to none. Goes on to its end if the caller is cancelled.
        """
        return await asyncio.shield(self._tasks.start(self._create_all(definitions, owner)))

    def close(self) -> None:
        """This node stops: it creates nothing itself any more."""
        self._is_closed = True

    async def _create_one(self, job_id: str, command: Command) -> Reply:
        answers = await self._create({0: command}, soonest=SOON_MS) if self._may_commit() else {}
        answer = answers.get(0)
        if answer is None:
            return await self._client(job_id, command)
        if isinstance(answer, StoreError):
            raise answer
        return answer

    async def _create_all(self, definitions: Sequence[Definition], owner: str) -> list[Answer]:
        answers: dict[int, Answer] = {}
        event = Created(uid="", key=b"", owner=owner)
        commands = [Command(event, definition) for definition in definitions]
        places = _alone(definitions)
        for start in range(0, len(places), GROUP_SIZE):
            if not self._may_commit():
                break
            group = {place: commands[place] for place in places[start : start + GROUP_SIZE]}
            answers.update(await self._create(group))
        others = [place for place in range(len(definitions)) if place not in answers]
        replies = await self._client.create_all([definitions[place] for place in others], owner)
        answers.update(zip(others, replies, strict=True))
        return [answers[place] for place in range(len(definitions))]

    def _may_commit(self) -> bool:
        """Whether this node may claim jobs."""
        return self._liveness.is_current and not self._is_closed

    async def _create(self, commands: Mapping[int, Command], soonest: int = 0) -> dict[int, Answer]:
        """The answers of those that were created, or may have been; none of them is due within `soonest`."""
        locked: dict[int, LockedJob] = {}
        answers: dict[int, Answer] = {}
        try:
            begun = await self._begin(commands, soonest, locked)
            at = self._clock.now().steady
            claims = [self._claim(commands[place], pending, at) for place, pending in begun.items()]
            errors = await self._commit(claims)
            for (place, pending), error in zip(begun.items(), errors, strict=True):
                if not isinstance(error, StoreConflict):
                    self._finish(pending.commit, error)
                    answers[place] = error or pending.decision.reply
        finally:
            for one in locked.values():
                self._leave(one)
        recorded = [place for place in answers if begun[place].commit.batch is not None]
        if recorded:
            await self._wait_for_history(begun[recorded[0]].commit.entry.job_id)
        return answers

    async def _begin(
        self, commands: Mapping[int, Command], soonest: int, locked: dict[int, LockedJob]
    ) -> dict[int, PendingCommit]:
        """The creations that do nothing at once, decided; their jobs, and no others, are `locked`."""
        begun: dict[int, PendingCommit] = {}
        slices = Slices()
        for place, command in commands.items():
            event, definition = command.event, command.definition
            assert isinstance(event, Created)
            assert definition is not None
            size = len(definition.text)
            if slices.is_full(size):
                await slices.rest(size)
            if (
                definition.program.short_bytes < 0
                or (one := self._jobs.seize(definition.program.key)) is None
            ):
                continue
            pending = self._decide(one, event, definition, soonest)
            if pending is None:
                self._leave(one)
            else:
                locked[place], begun[place] = one, pending
        return begun

    def _decide(
        self, one: LockedJob, event: Created, definition: Definition, soonest: int
    ) -> PendingCommit | None:
        """The creation; None: it is refused or acts too soon, or it broke, as that of its actor will."""
        try:
            if _fires_within(soonest, definition.program):
                return None
            pending = self._turn.begin_life(one.cached, event, definition)
        except Exception:  # noqa: BLE001 - one broken job must not take the others of its array with it
            return None
        if not isinstance(pending, PendingCommit) or _acts(pending) or _is_due(pending.commit, soonest):
            return None
        return pending

    def _leave(self, one: LockedJob) -> None:
        """The next turn of the job loads it, wherever that is."""
        one.cached.forget()
        self._jobs.leave(one)

    async def _commit(self, claims: Sequence[TurnClaim]) -> Sequence[StoreError | None]:
        """For each None, or its error; StoreConflict: there is such a job, or was one."""
        if not claims:
            return []
        try:
            return await self._store.claim_all(claims)
        except StoreError as error:
            return [error] * len(claims)

    def _claim(self, command: Command, pending: PendingCommit, at: int) -> TurnClaim:
        """The claim of a job of which the database has nothing.

        Nor has it an answer under the command's Idempotency-Key: that goes when the life that it began ends.
        """
        commit, remembered = pending.commit, command.remembered
        if remembered is not None:
            reply = pending.decision.reply
            remembered = remember_reply(commit.entry.job_id, remembered, reply, command.answer)
            commit = msgspec.structs.replace(commit, remembered=remembered)
        return claim_of(commit, holder=self._holder, at=at, is_first=True)

    def _finish(self, commit: Commit, error: StoreError | None) -> None:
        """The database has the job; after an error it may, and the alarm makes its actor look."""
        if error is None:
            if commit.batch is not None:
                self._history.append(commit.batch, durable=True)
            self._observe_job(None, commit.entry)
        if error is None or isinstance(error, StoreUncertain):
            moment = commit.due.wall
            if moment is not None and waits_at_creator(commit.entry.created_at, moment):
                self._alarms.ring_at(commit.entry.job_id, moment)
                self._expect(commit.entry.job_id, moment)


def _alone(definitions: Sequence[Definition]) -> list[int]:
    """The places of jobs that come once in the array."""
    times = Counter(definition.program.key for definition in definitions)
    return [place for place, one in enumerate(definitions) if times[one.program.key] == 1]


def _fires_within(pause: int, program: Program) -> bool:
    """Whether the job certainly fires so soon, so that to decide it here would be in vain."""
    timer, due = program.timer, program.timer.due
    if timer.start_at is not None or program.starts_paused or not program.active:
        return False
    return timer.kind is TimerKind.ONE_TIME or (isinstance(due, Duration) and _is_short(due, pause))


def _is_short(due: Duration, pause: int) -> bool:
    return due.is_zero or (due.months == due.days == 0 and due.ms < pause)


def _acts(pending: PendingCommit) -> bool:
    """Whether the job begins with more than a schedule: its holder has to be where its actor lives."""
    commit, document = pending.commit, pending.decision.document
    has_begun = document is None or bool(document.contexts) or bool(pending.decision.effects)
    return has_begun or bool(commit.deliveries) or bool(commit.queued)


def _is_due(commit: Commit, within: int) -> bool:
    """Whether the job is due so soon after its creation."""
    due = commit.due.wall
    return due is not None and due - commit.entry.created_at < within
