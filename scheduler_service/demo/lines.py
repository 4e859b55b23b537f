"""Prints a line for each execution as it ends."""

from collections.abc import Callable

from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.records import ExecutionRecord
from scheduler_service.engine.states import TERMINAL
from scheduler_service.ports.history import Batch, History


class PrintingHistory:
    """A history that tells of each end on its way: `History` in front of another one."""

    def __init__(self, *, history: History, write: Callable[[str], None]) -> None:
        self._history = history
        self._write = write

    def append(self, batch: Batch, *, durable: bool) -> None:
        """Hands the records on, then writes a line for each execution that they end."""
        self._history.append(batch, durable=durable)
        for record in batch.records:
            if isinstance(record, ExecutionRecord) and record.state in TERMINAL:
                self._write(line_of(batch.job_id, record))

    async def flush(self) -> None:
        """As the history behind it."""
        await self._history.flush()

    async def close(self) -> None:
        """As the history behind it."""
        await self._history.close()


def line_of(job_id: str, record: ExecutionRecord) -> str:
    """`2026-01-31T09:00:00.000Z  demo-chain  #1  succeeded  12 ms, 1 attempt`."""
    ended = record.ended_at or record.created_at
    took = ended - (record.started_at or ended)
    attempts = f"{record.attempt_count} attempt{'' if record.attempt_count == 1 else 's'}"
    cause = f"  {record.error}" if record.error else ""
    place = f"{job_id:<12} #{record.execute_number:<4}"
    return f"{rfc3339(ended)}  {place} {record.state:<10} {took} ms, {attempts}{cause}"
