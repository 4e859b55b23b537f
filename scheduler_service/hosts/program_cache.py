"""The definitions that were compiled last, bounded by what they take in memory."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable

from scheduler_service.engine.program import Program
from scheduler_service.engine.program_weight import weigh
from scheduler_service.ports.delivery import Compile
from scheduler_service.ports.errors import StoreUnavailable

MOST = 10_000
MOST_BYTES = 16 << 20


class ProgramCache:
    """Compiles each definition that it reads once, as long as it is among those used last.

    Those are at most `size`, and weigh at most about `most_bytes`.
    """

    def __init__(
        self,
        *,
        read: Callable[[str, int], Awaitable[bytes | None]],
        compiler: Compile,
        size: int = MOST,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._read = read
        self._compile = compiler
        self._size = size
        self._most_bytes = most_bytes
        self._bytes = 0
        self._known: OrderedDict[tuple[str, int], tuple[Program, int]] = OrderedDict()

    async def load(self, uid: str, revisions: Iterable[int]) -> dict[int, Program]:
        """The programs of `revisions`. Raises StoreUnavailable."""
        return {revision: await self._one(uid, revision) for revision in revisions}

    def keep(self, uid: str, revision: int, program: Program, text: bytes, weight: int | None = None) -> int:
        """Caches the program of `text`, which has just been committed or read. Returns what it weighs.

        `weight`: that of `text`, if it is known.
        """
        known, key = self._known, (uid, revision)
        if weight is None:
            weight = weigh(text)
        before = known.pop(key, None)
        known[key] = program, weight
        self._bytes += weight if before is None else weight - before[1]
        while len(known) > self._size or (self._bytes > self._most_bytes and len(known) > 1):
            self._bytes -= known.popitem(last=False)[1][1]
        return weight

    def weight(self, uid: str, revisions: Iterable[int]) -> int:
        """What those of `revisions` that are cached weigh together, in bytes."""
        weight = 0
        for revision in revisions:  # a loop, as each creation comes here
            kept = self._known.get((uid, revision))
            if kept is not None:
                weight += kept[1]
        return weight

    async def _one(self, uid: str, revision: int) -> Program:
        known = self._known.get((uid, revision))
        if known is not None:
            self._known.move_to_end((uid, revision))
            return known[0]
        text = await self._read(uid, revision)
        if text is None:
            raise StoreUnavailable(
                f"definition {revision} of job life {uid} is missing in the store: create the job again",
                is_public=True,
            )
        program = await self._compile(text)
        self.keep(uid, revision, program, text)
        return program
