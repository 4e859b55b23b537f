"""All worker processes of a service: opened, started and stopped together."""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

from scheduler_service.hosts.processes.worker_handle import WorkerHandle
from scheduler_service.hosts.processes.worker_process import WorkerProcess
from scheduler_service.hosts.processes.worker_supervisor import WorkerContext, WorkerSupervisor


class WorkerProcesses:
    """All worker processes of a service; `launched` are their first starts, which wait to be opened."""

    def __init__(
        self, *, workers: Sequence[WorkerHandle], launched: Sequence[WorkerProcess], context: WorkerContext
    ) -> None:
        self._supervisors = [
            WorkerSupervisor(worker=worker, process=process, context=context)
            for worker, process in zip(workers, launched, strict=True)
        ]

    @property
    def pids(self) -> Sequence[int]:
        """The ids of the processes as they are now; any thread may ask."""
        return [supervisor.pid for supervisor in self._supervisors]

    async def open(self) -> None:
        """Has each process open its shard; one that dies is started again.

        Raises StoreError where one refuses: then all have ended.
        """
        try:
            await _together(supervisor.open() for supervisor in self._supervisors)
        except BaseException:
            await asyncio.gather(*(supervisor.end() for supervisor in self._supervisors))
            raise

    async def start(self) -> None:
        """Has each recover and take firings; one that dies is started again, now and later.

        Raises StoreError where one refuses.
        """
        await _together(supervisor.start() for supervisor in self._supervisors)

    async def stop(self, grace: int) -> None:
        """Drains each for at most `grace` ms; returns when all have ended."""
        await asyncio.gather(*(supervisor.stop(grace) for supervisor in self._supervisors))


async def _together(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Returns when all have ended. Raises the first error, and then goes on with none of them."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
