"""Creates many jobs at once: each by a turn of its own, their writes in one group."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from scheduler_service.domain.events import Created
from scheduler_service.domain.replies import Reply
from scheduler_service.hosts.actors import Actor, Actors
from scheduler_service.hosts.held import Prepared
from scheduler_service.hosts.turn import Turn
from scheduler_service.ports import Definition, StateStore, StoreError

AT_ONCE = 50
"""So many turns are taken before other work has its turn."""

Answer = Reply | StoreError
Take = Callable[[str, Created, Definition], Awaitable[Reply]]


class Creation:
    """Takes the turn Created for many definitions.

    Jobs of which neither memory nor store knows anything are decided one after the other and committed as one
    group; every other one gets a turn by `take`, like any event.
    """

    def __init__(self, *, actors: Actors, store: StateStore, turn: Turn, take: Take) -> None:
        self._actors = actors
        self._store = store
        self._turn = turn
        self._take = take

    async def run(self, definitions: Sequence[Definition]) -> list[Answer]:
        """A reply for each, or the StoreError that its turn raised."""
        fresh = {
            place: actor
            for place, definition in enumerate(definitions)
            if (actor := self._actors.seize(definition.program.job_id)) is not None
        }
        try:
            answers = await self._create(fresh, definitions)
        finally:
            for actor in fresh.values():
                self._actors.leave(actor)
        await self._take_others(definitions, answers)
        return [answers[place] for place in range(len(definitions))]

    async def _create(self, fresh: dict[int, Actor], definitions: Sequence[Definition]) -> dict[int, Answer]:
        if not fresh:
            return {}
        try:
            stored = await self._store.load_all([actor.held.job_id for actor in fresh.values()])
        except StoreError as error:
            return dict.fromkeys(fresh, error)
        answers: dict[int, Answer] = {}
        begun: dict[int, Prepared] = {}
        for count, ((place, actor), found) in enumerate(zip(fresh.items(), stored, strict=True)):
            if isinstance(found, StoreError):
                answers[place] = found
            elif found is None:
                await self._begin(place, actor, definitions[place], begun, answers)
            if count % AT_ONCE == 0:
                await asyncio.sleep(0)
        await self._commit(fresh, begun, answers)
        return answers

    async def _begin(
        self,
        place: int,
        actor: Actor,
        definition: Definition,
        begun: dict[int, Prepared],
        answers: dict[int, Answer],
    ) -> None:
        prepared = self._turn.begin_life(actor.held, definition)
        if not isinstance(prepared, Prepared):
            answers[place] = prepared
            return
        await self._turn.expect(actor.held, prepared)
        begun[place] = prepared

    async def _commit(
        self, fresh: dict[int, Actor], begun: dict[int, Prepared], answers: dict[int, Answer]
    ) -> None:
        if not begun:
            return
        try:
            errors = await self._store.commit_all([prepared.commit for prepared in begun.values()])
        except StoreError as error:
            errors = [error] * len(begun)
        for (place, prepared), wrong in zip(begun.items(), errors, strict=True):
            await self._turn.settle(fresh[place].held, prepared, wrong)
            answers[place] = prepared.decision.reply if wrong is None else wrong

    async def _take_others(self, definitions: Sequence[Definition], answers: dict[int, Answer]) -> None:
        places = [place for place in range(len(definitions)) if place not in answers]
        for start in range(0, len(places), AT_ONCE):
            some = places[start : start + AT_ONCE]
            found = await asyncio.gather(*(self._take_one(definitions[place]) for place in some))
            answers.update(zip(some, found, strict=True))

    async def _take_one(self, definition: Definition) -> Answer:
        try:
            return await self._take(definition.program.job_id, Created(uid="", key=b""), definition)
        except StoreError as error:
            return error
