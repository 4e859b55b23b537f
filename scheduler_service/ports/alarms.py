"""The alarm of a job."""

from typing import Protocol

from scheduler_service.domain.moments import Due


class Alarms(Protocol):
    """A job's alarm, as a turn sets it. Without authority: one too many does no harm, one too few does."""

    async def expect(self, job_id: str, due: Due) -> None:
        """Before a commit: rings no later than `due`, whatever is set already."""

    async def arm(self, job_id: str, due: Due) -> None:
        """After a commit: `due`, which is durable, replaces what is set."""

    async def hold(self, job_id: str, due: Due) -> None:
        """Without a commit: `due` replaces what is set, and lives in memory alone."""

    def again(self, job_id: str) -> None:
        """Rings in a second: nobody knows how the job stands."""
