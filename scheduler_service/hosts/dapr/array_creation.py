"""Creates many jobs at once: all claims of a group, with the first states, are one transaction.

The claim of such a job is its commit. Its state lies beside the claim until the job's actor has taken a turn,
so no sidecar is asked. What is due soon waits in this process, all else is found by the sweep (decision 52).
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence

from scheduler_service.domain.events import Created
from scheduler_service.domain.replies import Reply
from scheduler_service.hosts.dapr.actor_client import ActorClient
from scheduler_service.hosts.dapr.first_rings import TakeDue, waits_at_creator
from scheduler_service.hosts.dapr.history_wait import HistoryWait
from scheduler_service.hosts.dapr.node import LocalJobs, NodeContext
from scheduler_service.hosts.dapr.turn_commits import LONGEST_TURN_MS
from scheduler_service.hosts.host_parts import TurnParts
from scheduler_service.hosts.job_cache import LockedJob, PendingCommit
from scheduler_service.hosts.tasks import Tasks
from scheduler_service.hosts.turn import Turn
from scheduler_service.persistence.common.actor_document import (
    FORMAT,
    ActorDocument,
    pack_batches,
    write_actor_document,
)
from scheduler_service.ports.cluster import TurnClaim
from scheduler_service.ports.delivery import Definition
from scheduler_service.ports.errors import StoreConflict, StoreError, StoreUncertain
from scheduler_service.ports.slices import Slices
from scheduler_service.ports.state import Commit

GROUP_SIZE = 250
# Another node may have found no job before the commit, and claims it a turn later at most: over one of 5 s.
LONGEST_CLAIM_MS = LONGEST_TURN_MS

Answer = Reply | StoreError


class ArrayCreation:
    """Creates jobs without their actors where it can.

    It can where the database has nothing of a job, this node has it not in memory, and it does nothing at
    once. All others take the turn Created through `client`, so that each has the reply that a single creation
    has. `client` does so too while this node is past its heartbeat, or stops, and over a database that does
    not keep through a power loss what it has confirmed. `expect` gets the jobs that wait here for their
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

    async def run(self, definitions: Sequence[Definition], owner: str) -> Sequence[Answer]:
        """A reply for each, or the StoreError that its turn raised; those of one job in order.

        The jobs belong to the service `owner`; empty: to none. Goes on to its end if the caller is cancelled.
        """
        return await asyncio.shield(self._tasks.start(self._run(definitions, owner)))

    def close(self) -> None:
        """This node stops: it creates nothing itself any more."""
        self._is_closed = True

    async def _run(self, definitions: Sequence[Definition], owner: str) -> list[Answer]:
        answers: dict[int, Answer] = {}
        event = Created(uid="", key=b"", owner=owner)
        places = _alone(definitions)
        for start in range(0, len(places), GROUP_SIZE):
            if not self._may_commit():
                break
            await self._create(places[start : start + GROUP_SIZE], definitions, event, answers)
        others = [place for place in range(len(definitions)) if place not in answers]
        replies = await self._client.create_all([definitions[place] for place in others], owner)
        answers.update(zip(others, replies, strict=True))
        return [answers[place] for place in range(len(definitions))]

    def _may_commit(self) -> bool:
        """Whether a claim of this node may be a commit: also where it outlives a power loss alone."""
        return self._liveness.is_current and self._store.is_synced and not self._is_closed

    async def _create(
        self,
        places: Iterable[int],
        definitions: Sequence[Definition],
        event: Created,
        answers: dict[int, Answer],
    ) -> None:
        """Adds the answers of those that were created, or may have been."""
        locked: dict[int, LockedJob] = {}
        try:
            begun = await self._begin(places, definitions, event, locked)
            at = self._clock.now().steady
            commits = [pending.commit for pending in begun.values()]
            errors = await self._commit(commits, at)
            for (place, pending), error in zip(begun.items(), errors, strict=True):
                if not isinstance(error, StoreConflict):
                    self._finish(pending.commit, error)
                    answers[place] = error or pending.decision.reply
        finally:
            for one in locked.values():
                self._leave(one)
        if any(commit.batch is not None for commit in commits):
            await self._wait_for_history(commits[0].entry.job_id)

    async def _begin(
        self,
        places: Iterable[int],
        definitions: Sequence[Definition],
        event: Created,
        locked: dict[int, LockedJob],
    ) -> dict[int, PendingCommit]:
        """The creations that do nothing at once, decided; their jobs, and no others, are `locked`."""
        begun: dict[int, PendingCommit] = {}
        slices = Slices()
        for place in places:
            definition = definitions[place]
            size = len(definition.text)
            if slices.is_full(size):
                await slices.rest(size)
            if definition.program.is_large or (one := self._jobs.seize(definition.program.key)) is None:
                continue
            pending = self._decide(one, event, definition)
            if pending is None:
                self._leave(one)
            else:
                locked[place], begun[place] = one, pending
        return begun

    def _decide(self, one: LockedJob, event: Created, definition: Definition) -> PendingCommit | None:
        """The creation; None: it is refused or acts at once, or it broke, as that of its actor will."""
        try:
            pending = self._turn.begin_life(one.cached, event, definition)
        except Exception:  # noqa: BLE001 - one broken job must not take the others of its array with it
            return None
        return pending if isinstance(pending, PendingCommit) and not _acts(pending) else None

    def _leave(self, one: LockedJob) -> None:
        """The next turn of the job loads it, wherever that is."""
        one.cached.forget()
        self._jobs.leave(one)

    async def _commit(self, commits: Sequence[Commit], at: int) -> Sequence[StoreError | None]:
        """For each None, or its error; StoreConflict: there is such a job, or was one."""
        if not commits:
            return []
        try:
            errors = await self._store.claim_all([self._claim(commit, at) for commit in commits])
        except StoreError as error:
            return [error] * len(commits)
        if self._clock.now().steady - at <= LONGEST_CLAIM_MS:
            return errors
        late = StoreUncertain("the database took longer than 2 s; another node may have been faster")
        return [error or late for error in errors]

    def _claim(self, commit: Commit, at: int) -> TurnClaim:
        """The claim of a job of which the database has nothing, with the state that it begins with."""
        state = ActorDocument(
            format=FORMAT,
            sequence=commit.sequence,
            writer=self._holder,
            entry=commit.entry,
            due=commit.due,
            document=commit.document,
            batches=() if commit.batch is None else pack_batches((commit.batch,)),
            is_first=True,
            qos=commit.qos,
        )
        return TurnClaim(
            entry=commit.entry,
            due=commit.due,
            expected=commit.expected,
            sequence=commit.sequence,
            holder=self._holder,
            at=at,
            definition=commit.definition,
            copy=write_actor_document(state),
            is_exact=True,
        )

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


def _acts(pending: PendingCommit) -> bool:
    """Whether the job begins with more than a schedule: its holder has to be where its actor lives."""
    commit, document = pending.commit, pending.decision.document
    has_begun = document is None or bool(document.contexts) or bool(pending.decision.effects)
    return has_begun or bool(commit.deliveries) or bool(commit.queued)
