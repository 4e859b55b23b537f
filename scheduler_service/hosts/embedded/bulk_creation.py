"""Creates many jobs at once: each by a turn of its own, their writes in few groups."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

from scheduler_service.domain.replies import Reply
from scheduler_service.domain.turn_events import Created
from scheduler_service.hosts.job_cache import JobCache, LockedJob, PendingCommit
from scheduler_service.hosts.turn import Turn
from scheduler_service.pacing.slices import Slices
from scheduler_service.ports.delivery import Command, Definition
from scheduler_service.ports.errors import StoreConflict, StoreError
from scheduler_service.ports.state import Commit, OwnedStore

TURNS_AT_ONCE = 10
"""Of jobs that are in memory, or in the store."""

USUAL_BYTES = 1 << 10
"""What a usual job has at most: a thousand of them are one group, as a group has its price."""

GROUP_BYTES = 128 << 10
"""What jobs that are written in one group may have beyond what is usual. For so long firings wait to be
written: on a slow machine 1 MiB took 50 to 100 ms, 256 KiB 10 to 25."""

Answer = Reply | StoreError
Take = Callable[[str, Command], Awaitable[Reply]]


class BulkCreation:
    """Takes the turn Created for many definitions.

    Jobs that are not in memory are decided as if the store had nothing of them either, and committed in
    groups, one after the other: what others write comes between two. Where the store has something, for
    jobs in memory, and for those whose bodies take long to render, as they may fire at once, `take` takes
    the turn like any other.
    """

    def __init__(self, *, jobs: JobCache, store: OwnedStore, turn: Turn, take: Take) -> None:
        self._jobs = jobs
        self._store = store
        self._turn = turn
        self._take = take

    async def take(self, definition: Definition, event: Created) -> Reply:
        """The turn `event` for one definition. Raises StoreError."""
        answer = (await self.run([definition], event))[0]
        if isinstance(answer, StoreError):
            raise answer
        return answer

    async def run(self, definitions: Sequence[Definition], event: Created) -> list[Answer]:
        """A reply for each, or the StoreError that its turn raised.

        `event` says what all have in common, as their owner; uid and key are made for each.
        """
        fresh = {
            place: locked
            for place, definition in enumerate(definitions)
            if definition.program.short_bytes >= 0
            and (locked := self._jobs.seize(definition.program.key)) is not None
        }
        try:
            answers = await self._create(fresh, definitions, event)
        finally:
            for locked in fresh.values():
                self._jobs.leave(locked)
        if len(answers) < len(definitions):
            await self._take_others(definitions, answers, event)
        return [answers[place] for place in range(len(definitions))]

    async def _create(
        self, fresh: dict[int, LockedJob], definitions: Sequence[Definition], event: Created
    ) -> dict[int, Answer]:
        answers: dict[int, Answer] = {}
        begun: dict[int, PendingCommit] = {}
        slices = Slices()
        for place, locked in fresh.items():
            size = len(definitions[place].text)
            if slices.is_full(size):
                await slices.rest(size)
            pending = self._turn.begin_life(locked.cached, event, definitions[place])
            if isinstance(pending, PendingCommit):
                await self._turn.expect(locked.cached, pending)
                begun[place] = pending
            else:
                answers[place] = pending
        errors = await self._commit([pending.commit for pending in begun.values()])
        slices = Slices()  # the time that the store took is none of the loop's
        for (place, pending), error in zip(begun.items(), errors, strict=True):
            if slices.is_full():
                await slices.rest()
            locked = fresh.pop(place)
            try:
                await self._turn.settle(locked.cached, pending, error)
            finally:
                self._jobs.leave(locked)  # not all at the end: who waits for them all goes on at once then
            if not isinstance(error, StoreConflict):
                answers[place] = error or pending.decision.reply
        return answers

    async def _commit(self, commits: Sequence[Commit]) -> Sequence[StoreError | None]:
        errors: list[StoreError | None] = []
        for group in _divide(commits):
            try:
                errors += await self._store.commit_all(group)
            except StoreError as error:
                errors += [error] * len(group)
        return errors

    async def _take_others(
        self, definitions: Sequence[Definition], answers: dict[int, Answer], event: Created
    ) -> None:
        places = [place for place in range(len(definitions)) if place not in answers]
        for start in range(0, len(places), TURNS_AT_ONCE):
            some = places[start : start + TURNS_AT_ONCE]
            found = await asyncio.gather(*(self._take_one(definitions[place], event) for place in some))
            answers.update(zip(some, found, strict=True))

    async def _take_one(self, definition: Definition, event: Created) -> Answer:
        try:
            return await self._take(definition.program.key, Command(event, definition))
        except StoreError as error:
            return error


def _divide(commits: Sequence[Commit]) -> Iterator[Sequence[Commit]]:
    """Groups of `commits` in their order: up to `GROUP_BYTES` beyond `USUAL_BYTES` each, or one with more."""
    start = weight = 0
    for place, commit in enumerate(commits):
        own = max(0, len(commit.document or b"") + len(commit.definition or b"") - USUAL_BYTES)
        if weight and weight + own > GROUP_BYTES:
            yield commits[start:place]
            start, weight = place, 0
        weight += own
    if start < len(commits):
        yield commits[start:]
