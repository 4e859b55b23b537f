"""Creates jobs: each by a turn of its own, the writes of many in few groups."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

from scheduler_service.domain.replies import Reply
from scheduler_service.domain.turn_events import Created
from scheduler_service.hosts.job_cache import CachedJob, JobCache, LockedJob, PendingCommit
from scheduler_service.hosts.turn import Turn
from scheduler_service.pacing.slices import Slices
from scheduler_service.ports.delivery import Command, Definition, Deliver
from scheduler_service.ports.errors import StoreConflict, StoreError
from scheduler_service.ports.state import Commit

USUAL_BYTES = 1 << 10
"""What a usual job has at most: a thousand of them are one group, as a group has its price."""

GROUP_BYTES = 128 << 10
"""What jobs that are written in one group may have beyond what is usual. For so long firings wait to be
written: on a slow machine 1 MiB took 50 to 100 ms, 256 KiB 10 to 25."""

AT_ONCE = 10
"""Turns on jobs that are in memory, or in the store."""

Answer = Reply | StoreError
CommitAll = Callable[[Sequence[Commit]], Awaitable[Sequence[StoreError | None]]]
"""Writes turns of different jobs in one group; for each None, or its error. Raises StoreError."""


class Creation:
    """Takes the turn Created, for one definition or for many.

    Jobs that are not in memory are decided as if the store had nothing of them either, and written by
    `commit_all` in groups, one after the other: what others write comes between two. Where the store has
    something, where the creation is refused, for jobs in memory, and for those whose bodies take long to
    render, as they may fire at once, `take` takes the turn like any other, `at_once` at a time. A placement
    that writes creations in another way overrides what is below `create_all`.
    """

    most_in_group = 1_000

    def __init__(
        self, *, jobs: JobCache, turn: Turn, commit_all: CommitAll, take: Deliver, at_once: int = AT_ONCE
    ) -> None:
        self._jobs = jobs
        self._turn = turn
        self._commit_all = commit_all
        self._take = take
        self._at_once = at_once
        self._is_closed = False

    async def create(self, command: Command) -> Reply:
        """The turn of one command. Raises StoreError."""
        assert command.definition is not None, "a creation has a definition"
        (answer,) = await self._run([command.definition], [command])
        if isinstance(answer, StoreError):
            raise answer
        return answer

    async def create_all(self, definitions: Sequence[Definition], owner: str) -> list[Answer]:
        """A reply for each, or the StoreError that its turn raised; those of one job in order.

        The jobs belong to the service `owner`; empty: to none. Uid and key are made for each.
        """
        event = Created(uid="", key=b"", owner=owner)
        return await self._run(definitions, [Command(event, definition) for definition in definitions])

    def close(self) -> None:
        """The process stops: nothing more is written here."""
        self._is_closed = True

    def may_commit(self) -> bool:
        """Whether the next group may be written; else `take` takes the turns."""
        return not self._is_closed

    def keeps(self, pending: PendingCommit, *, is_alone: bool) -> bool:
        """Whether a creation that is decided is written here; else `take` takes its turn."""
        return True

    async def begin(self, cached: CachedJob, pending: PendingCommit) -> None:
        """Just before the write."""
        await self._turn.expect(cached, pending)

    async def settle(self, cached: CachedJob, pending: PendingCommit, error: StoreError | None) -> None:
        """The store has it, or said why not."""
        await self._turn.settle(cached, pending, error)

    async def finish(self, written: Sequence[PendingCommit]) -> None:
        """All are settled and free; before they are answered."""

    async def _run(self, definitions: Sequence[Definition], commands: Sequence[Command]) -> list[Answer]:
        answers: dict[int, Answer] = {}
        fresh = {
            place: locked
            for place, definition in enumerate(definitions)
            if definition.program.short_bytes >= 0
            and (locked := self._jobs.seize(definition.program.key)) is not None
        }
        try:
            written = await self._create(fresh, commands, answers)
        finally:
            for locked in fresh.values():
                if locked.cached.is_empty:
                    locked.cached.forget()
                self._jobs.leave(locked)
        await self.finish(written)
        if len(answers) < len(definitions):
            await self._take_others(definitions, commands, answers)
        return [answers[place] for place in range(len(definitions))]

    async def _create(
        self, fresh: dict[int, LockedJob], commands: Sequence[Command], answers: dict[int, Answer]
    ) -> list[PendingCommit]:
        """Those that were written, or may have been; they, and no others, have their `answers`."""
        written: list[PendingCommit] = []
        begun = await self._decide(fresh, commands)
        for group in _divide(begun, self.most_in_group):
            if not self.may_commit():
                break
            for place, pending in group:
                await self.begin(fresh[place].cached, pending)
            errors = await self._commit([pending.commit for _, pending in group])
            slices = Slices()  # the time that the store took is none of the loop's
            for (place, pending), error in zip(group, errors, strict=True):
                if slices.is_full():
                    await slices.rest()
                locked = fresh.pop(place)
                try:  # free it at once: of those who wait for all of them not all go on in one round
                    await self.settle(locked.cached, pending, error)
                finally:
                    self._jobs.leave(locked)
                if not isinstance(error, StoreConflict):
                    written.append(pending)
                    answers[place] = error or pending.decision.reply
        return written

    async def _decide(
        self, fresh: dict[int, LockedJob], commands: Sequence[Command]
    ) -> list[tuple[int, PendingCommit]]:
        """The creations that are written here; the jobs of others are free again, and not in `fresh`."""
        begun: list[tuple[int, PendingCommit]] = []
        is_alone, slices = len(commands) == 1, Slices()
        for place, locked in list(fresh.items()):
            command = commands[place]
            size = len(command.definition.text) if command.definition else 0
            if slices.is_full(size):
                await slices.rest(size)
            try:
                pending = self._turn.begin_life(locked.cached, command)
            except Exception:  # noqa: BLE001 - one broken job must not take the others of its array with it
                pending = None
            if pending is not None and self.keeps(pending, is_alone=is_alone):
                begun.append((place, pending))
                continue
            del fresh[place]
            locked.cached.forget()
            self._jobs.leave(locked)
        return begun

    async def _commit(self, commits: Sequence[Commit]) -> Sequence[StoreError | None]:
        try:
            return await self._commit_all(commits)
        except StoreError as error:
            return [error] * len(commits)

    async def _take_others(
        self, definitions: Sequence[Definition], commands: Sequence[Command], answers: dict[int, Answer]
    ) -> None:
        by_job: dict[str, list[int]] = {}
        for place, definition in enumerate(definitions):
            if place not in answers:
                by_job.setdefault(definition.program.key, []).append(place)
        rest = iter(by_job.items())

        async def take_rest() -> None:
            for job_id, places in rest:
                for place in places:
                    try:
                        answers[place] = await self._take(job_id, commands[place])
                    except StoreError as error:
                        answers[place] = error

        await asyncio.gather(*(take_rest() for _ in range(min(self._at_once, len(by_job)))))


def _divide(
    begun: Sequence[tuple[int, PendingCommit]], most: int
) -> Iterator[Sequence[tuple[int, PendingCommit]]]:
    """Groups in their order: up to `most`, and `GROUP_BYTES` beyond `USUAL_BYTES` each, or one with more."""
    start = weight = 0
    for place, (_, pending) in enumerate(begun):
        commit = pending.commit
        own = max(0, len(commit.document or b"") + len(commit.definition or b"") - USUAL_BYTES)
        if place - start >= most or (weight and weight + own > GROUP_BYTES):
            yield begun[start:place]
            start, weight = place, 0
        weight += own
    if start < len(begun):
        yield begun[start:]
