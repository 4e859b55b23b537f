"""Creates many jobs at once: each by a turn of its own, their writes in one group."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from scheduler_service.domain.events import Created
from scheduler_service.domain.replies import Reply
from scheduler_service.hosts.job_cache import JobCache, LockedJob, PendingCommit
from scheduler_service.hosts.turn import Turn
from scheduler_service.ports.delivery import Command, Definition
from scheduler_service.ports.errors import StoreConflict, StoreError
from scheduler_service.ports.state import Commit, StateStore

AT_ONCE = 50
"""So many turns are taken before other work has its turn."""
NEW = Created(uid="", key=b"")
"""A life without an owner, whose uid and key are still to be made."""

Answer = Reply | StoreError
Take = Callable[[str, Command], Awaitable[Reply]]


class BulkCreation:
    """Takes the turn Created for many definitions.

    Jobs of which memory knows nothing are decided one after the other, as if the store knew nothing of them
    either, and committed as one group. Where the store does know something, and for all others, the job gets
    a turn by `take`, like any event.
    """

    def __init__(self, *, actors: JobCache, store: StateStore, turn: Turn, take: Take) -> None:
        self._actors = actors
        self._store = store
        self._turn = turn
        self._take = take

    async def take(self, definition: Definition, event: Created = NEW) -> Reply:
        """The turn `event` for one definition. Raises StoreError."""
        answer = (await self.run([definition], event))[0]
        if isinstance(answer, StoreError):
            raise answer
        return answer

    async def run(self, definitions: Sequence[Definition], event: Created = NEW) -> list[Answer]:
        """A reply for each, or the StoreError that its turn raised.

        `event` says what all have in common, as their owner; uid and key are made for each.
        """
        fresh = {
            place: actor
            for place, definition in enumerate(definitions)
            if (actor := self._actors.seize(definition.program.job_id)) is not None
        }
        try:
            answers = await self._create(fresh, definitions, event)
        finally:
            for actor in fresh.values():
                self._actors.leave(actor)
        if len(answers) < len(definitions):
            await self._take_others(definitions, answers, event)
        return [answers[place] for place in range(len(definitions))]

    async def _create(
        self, fresh: dict[int, LockedJob], definitions: Sequence[Definition], event: Created
    ) -> dict[int, Answer]:
        answers: dict[int, Answer] = {}
        begun: dict[int, PendingCommit] = {}
        for place, actor in fresh.items():
            prepared = self._turn.begin_life(actor.held, event, definitions[place])
            if isinstance(prepared, PendingCommit):
                await self._turn.expect(actor.held, prepared)
                begun[place] = prepared
            else:
                answers[place] = prepared
            if len(begun) % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)
        errors = await self._commit([prepared.commit for prepared in begun.values()])
        for (place, prepared), error in zip(begun.items(), errors, strict=True):
            await self._turn.settle(fresh[place].held, prepared, error)
            if not isinstance(error, StoreConflict):
                answers[place] = error or prepared.decision.reply
        return answers

    async def _commit(self, commits: Sequence[Commit]) -> Sequence[StoreError | None]:
        try:
            return await self._store.commit_all(commits) if commits else []
        except StoreError as error:
            return [error] * len(commits)

    async def _take_others(
        self, definitions: Sequence[Definition], answers: dict[int, Answer], event: Created
    ) -> None:
        places = [place for place in range(len(definitions)) if place not in answers]
        for start in range(0, len(places), AT_ONCE):
            some = places[start : start + AT_ONCE]
            found = await asyncio.gather(*(self._take_one(definitions[place], event) for place in some))
            answers.update(zip(some, found, strict=True))

    async def _take_one(self, definition: Definition, event: Created) -> Answer:
        try:
            return await self._take(definition.program.job_id, Command(event, definition))
        except StoreError as error:
            return error
