"""What a store of one process looks for after its start and closes at its end; actors have none of that."""

from collections.abc import Sequence

from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import OpenJob


class NoBacklog:
    """That part of `ports.state.StateStore` for actors: there is never anything to find."""

    async def due_wall(self, before: int, limit: int, after: int = -1) -> list[tuple[int, str]]:
        """None: alarms are reminders here."""
        return []

    async def due_steady(self, before: int, limit: int, after: int = -1) -> list[tuple[int, str]]:
        """None: alarms are reminders here."""
        return []

    async def open_jobs(self, after: str, limit: int, marks: Sequence[bytes]) -> list[OpenJob]:
        """None: the sweep finds what a node left open."""
        return []

    async def unwritten(self, after: tuple[str, int], limit: int) -> list[Batch]:
        """None: batches are in their job's state, and found when it is loaded."""
        return []

    async def close(self) -> None:
        """Nothing is open here."""
