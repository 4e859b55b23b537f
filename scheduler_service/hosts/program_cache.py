"""The compiled definitions of jobs that are loaded, cached by life and revision."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Protocol

from scheduler_service.engine.program import Program
from scheduler_service.ports.delivery import Compile
from scheduler_service.ports.errors import StoreUnavailable


class Definitions(Protocol):
    """Where definitions lie."""

    async def definition(self, uid: str, revision: int) -> bytes | None:
        """As in `ports.StateStore`."""


class ProgramCache:
    """Compiles each stored definition once, as long as it is among the `size` last used."""

    def __init__(self, *, store: Definitions, compiler: Compile, size: int = 10_000) -> None:
        self._store = store
        self._compile = compiler
        self._size = size
        self._known: OrderedDict[tuple[str, int], Program] = OrderedDict()

    async def load(self, uid: str, revisions: Iterable[int]) -> dict[int, Program]:
        """The programs of `revisions`. Raises StoreUnavailable, DefinitionError where one is refused now."""
        return {revision: await self._one(uid, revision) for revision in revisions}

    def keep(self, uid: str, revision: int, program: Program) -> None:
        """Remembers a program that has just been committed."""
        self._known[uid, revision] = program
        if len(self._known) > self._size:
            self._known.popitem(last=False)

    async def _one(self, uid: str, revision: int) -> Program:
        known = self._known.get((uid, revision))
        if known is not None:
            self._known.move_to_end((uid, revision))
            return known
        text = await self._store.definition(uid, revision)
        if text is None:
            raise StoreUnavailable(
                f"definition {revision} of job life {uid} is missing in the store: create the job again"
            )
        program = self._compile(text)
        self.keep(uid, revision, program)
        return program
