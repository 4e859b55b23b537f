"""The worker processes of a service: started, looked after, started again where one dies, stopped."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any

import msgspec

from scheduler_service.domain.moments import SECOND
from scheduler_service.hosts.processes import rpc_methods
from scheduler_service.hosts.processes.parent_service import ParentService
from scheduler_service.hosts.processes.rpc_connection import RpcConnection
from scheduler_service.hosts.processes.rpc_methods import WorkerConfig
from scheduler_service.hosts.processes.worker_handle import WorkerHandle, call_method
from scheduler_service.hosts.processes.worker_process import EXIT_LIMIT, WorkerProcess, launch
from scheduler_service.ports.errors import StoreError, StoreUnavailable, StoreUncertain
from scheduler_service.ports.log import Log

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0


class WatchLimits(msgspec.Struct):
    """With a worker process, in seconds.

    `watch`: how often it is asked whether it is there. After `silent` without an answer it is not ready;
    after `hangs` it is better started again, with the turns of its share.
    """

    watch: float = 3.0
    silent: float = 3.0
    hangs: float = 30.0


ConfigFor = Callable[[int], WorkerConfig]
"""The orders for the next start of a share's process."""
NewParentService = Callable[[], ParentService]


class WorkerProcesses:
    """All of them, the first starts of whose processes are `launched`.

    `back` is called with the share of one that had died and takes calls again.
    """

    def __init__(
        self,
        *,
        branches: Sequence[WorkerHandle],
        launched: Sequence[WorkerProcess],
        give: ConfigFor,
        hosting: NewParentService,
        back: Callable[[int], None],
        log: Log,
    ) -> None:
        self._keepers = [
            WorkerSupervisor(branch=branch, launched=one, give=give, hosting=hosting, back=back, log=log)
            for branch, one in zip(branches, launched, strict=True)
        ]

    async def open(self) -> None:
        """Has each process open its share. Raises StoreError: then all have ended."""
        try:
            await _together(keeper.open() for keeper in self._keepers)
        except BaseException:
            await asyncio.gather(*(keeper.end() for keeper in self._keepers))
            raise

    async def start(self) -> None:
        """Has each recover and take firings; one that dies is started again. Raises StoreError."""
        await _together(keeper.start() for keeper in self._keepers)

    async def stop(self, grace: int) -> None:
        """Drains each for at most `grace` ms; returns when all have ended."""
        await asyncio.gather(*(keeper.stop(grace) for keeper in self._keepers))


async def _together(work: Iterable[Awaitable[None]]) -> None:
    """Returns when all have ended; raises the first error that one raised."""
    for outcome in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


class WorkerSupervisor:
    """Keeps one worker process alive."""

    def __init__(
        self,
        *,
        branch: WorkerHandle,
        launched: WorkerProcess,
        give: ConfigFor,
        hosting: NewParentService,
        back: Callable[[int], None],
        log: Log,
        patience: WatchLimits | None = None,
    ) -> None:
        self._patience = patience or WatchLimits()
        self._branch = branch
        self._give = give
        self._hosting = hosting
        self._back = back
        self._log = log
        self._launched = launched
        self._line: RpcConnection | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._cut = asyncio.Event()

    async def open(self) -> None:
        """Has the process open its share. Raises StoreError."""
        cut = self._cut = asyncio.Event()
        hosting = self._hosting()

        def lose() -> None:
            self._branch.leave()
            hosting.end()
            cut.set()

        end = self._launched.hand_over()
        line = self._line = await RpcConnection.open(
            end, serve=hosting.serve, hear=hosting.hear, lost=lose, log=self._log
        )
        await self._alive(call_method(line, rpc_methods.OPEN, self._give(self._branch.share)))

    async def start(self) -> None:
        """Has the share recover, and takes calls for it. Raises StoreError."""
        await self._join()
        self._keeping = asyncio.create_task(self._keep())

    async def stop(self, grace: int) -> None:
        """Drains the share for at most `grace` ms and ends the process."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        if self._line is not None and not self._cut.is_set():
            try:
                async with asyncio.timeout(grace / SECOND + EXIT_LIMIT):
                    await call_method(self._line, rpc_methods.STOP, grace)
            except (StoreError, TimeoutError) as error:
                self._log("worker_not_stopped", worker=self._branch.share, error=str(error))
        await self.end()

    async def _join(self) -> None:
        line = self._line
        assert line is not None, "opened before"
        await self._alive(call_method(line, rpc_methods.START, None))
        if self._cut.is_set():
            raise self._ended
        self._branch.join(line)

    async def _keep(self) -> None:
        """Starts the process again whenever it has died."""
        while True:
            await self._watch()
            self._log("worker_lost", worker=self._branch.share, exit=await self.end())
            await self._come_back()
            self._log("worker_back", worker=self._branch.share)

    async def _watch(self) -> None:
        """Returns when the process has died; one that does not answer is killed."""
        while not self._cut.is_set():
            try:
                async with asyncio.timeout(self._patience.watch):
                    await self._cut.wait()
            except TimeoutError:
                await self._knock()

    async def _alive(self, work: Coroutine[Any, Any, None]) -> None:
        """Returns with `work`, however long that takes, while the process answers. Raises StoreError."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=self._patience.watch)
                if not task.done():
                    await self._knock()
            await task
        except StoreUncertain as error:
            if not self._cut.is_set():
                raise
            raise self._ended from error
        finally:
            task.cancel()

    @property
    def _ended(self) -> StoreUnavailable:
        share = self._branch.share
        return StoreUnavailable(f"worker process {share} ended before it was ready; the log says why")

    async def _knock(self) -> None:
        assert self._line is not None, "opened before"
        silent, hangs = self._patience.silent, self._patience.hangs
        asked = asyncio.ensure_future(call_method(self._line, rpc_methods.PING, None))
        try:
            await asyncio.wait({asked}, timeout=silent)
            self._branch.is_silent = not asked.done()
            await asyncio.wait({asked}, timeout=hangs - silent)
            if asked.done():
                self._branch.is_silent = False
                asked.exception()  # it has died: the line says so
                return
        finally:
            asked.cancel()
        self._log("worker_hangs", worker=self._branch.share, seconds=hangs)
        self._launched.kill()
        await self._cut.wait()

    async def _come_back(self) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                self._launched = await launch()
                await self.open()
                await self._join()
            except Exception as error:  # noqa: BLE001 - whatever it is, the share must not stay away for it
                self._log("worker_not_started", worker=self._branch.share, error=str(error) or repr(error))
                await self.end()
            else:
                self._back(self._branch.share)
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def end(self) -> int:
        """The exit code of the process: one whose line is cut ends by itself, or has to."""
        if self._line is not None:
            self._line.close()
        return await self._launched.end()
