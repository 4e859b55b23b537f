"""A store of contexts in memory, which outlives the processes of a test."""

from collections.abc import AsyncIterator, Sequence

from scheduler_service.ports.errors import StoreUnavailable


class MemoryContexts:
    """`ports.state.Contexts`; `versions` has what was put, by job. While `is_away` nothing is reached.

    `puts` and `drops` count the calls that were answered.
    """

    def __init__(self) -> None:
        self.versions: dict[str, dict[int, bytes]] = {}
        self.is_away = False
        self.puts = self.drops = 0

    async def put(
        self, job_id: str, version: int, content: bytes, unused: Sequence[int], others: Sequence[int] = ()
    ) -> None:
        self._reach()
        self.versions.setdefault(job_id, {})[version] = content
        self.puts += 1
        self._remove(job_id, unused)

    async def get(self, job_id: str, version: int) -> bytes | None:
        self._reach()
        return self.versions.get(job_id, {}).get(version)

    async def find(self, job_id: str) -> Sequence[int]:
        self._reach()
        return list(self.versions.get(job_id, ()))

    async def drop(self, job_id: str, unused: Sequence[int]) -> None:
        self._reach()
        self.drops += 1
        self._remove(job_id, unused)

    async def pages(self) -> AsyncIterator[list[tuple[str, list[int]]]]:
        """All that it has, in one page."""
        self._reach()
        yield [(job_id, list(versions)) for job_id, versions in self.versions.items()]

    async def close(self) -> None:
        """What it has stays."""

    def lose(self) -> None:
        """It has nothing any more."""
        self.versions.clear()

    def _reach(self) -> None:
        if self.is_away:
            raise StoreUnavailable("the store of contexts is away")

    def _remove(self, job_id: str, unused: Sequence[int]) -> None:
        versions = self.versions.get(job_id, {})
        for version in unused:
            versions.pop(version, None)
        if not versions:
            self.versions.pop(job_id, None)
