"""The worker processes of a service: launched, watched, started again where they die, stopped."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Self

import msgspec

from scheduler_service.domain.moments import SECOND
from scheduler_service.hosts.background_tasks import LEAST_PATIENCE_MS
from scheduler_service.hosts.processes import rpc_methods
from scheduler_service.hosts.processes.parent import ParentService
from scheduler_service.hosts.processes.remote_shard import WorkerHandle
from scheduler_service.hosts.processes.rpc_methods import RpcConnection, WorkerConfig
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.log import Log
from scheduler_service.telemetry.event_source import Leave, TellInterest
from scheduler_service.timing.backoff import doubling_pauses

COMMAND = (sys.executable, "-m", "scheduler_service.app.worker_start")
# The time in which a process ends by itself after its connection is cut; then it is killed.
EXIT_TIMEOUT_SECONDS = 5.0


class WorkerProcess:
    """A process that was started, and a socket that is connected to it until `hand_over`."""

    def __init__(self, *, process: asyncio.subprocess.Process, end: socket.socket) -> None:
        self._process = process
        self._end: socket.socket | None = end

    @classmethod
    async def launch(cls) -> Self:
        """Starts a process, which imports what it needs and waits for calls."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    *COMMAND, str(theirs.fileno()), pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL
                )
        except BaseException:
            ours.close()
            raise
        ours.setblocking(False)
        return cls(process=process, end=ours)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def hand_over(self) -> socket.socket:
        """Our end of the socket; the caller closes it."""
        end, self._end = self._end, None
        assert end is not None, "it is handed over once"
        return end

    def kill(self) -> None:
        """Kills the process; does nothing where it has ended."""
        if self._process.returncode is None:
            self._process.kill()

    async def end(self) -> int:
        """Its exit code: it ends by itself within 5 s of the end of its connection, or is killed then."""
        if self._end is not None:
            self._end.close()
        try:
            async with asyncio.timeout(EXIT_TIMEOUT_SECONDS):
                return await self._process.wait()
        except TimeoutError:
            self.kill()
            return await self._process.wait()


FIRST_RESTART_PAUSE_SECONDS = 0.1
LONGEST_RESTART_PAUSE_SECONDS = 5.0
LAST_SIGN_SECONDS = 1.0
"""A process that does not answer for so long when its drain is over stands still."""


class WatchLimits(msgspec.Struct):
    """How a worker process is watched, in seconds.

    It is pinged every `ping_interval`. After `silent` without an answer it is not ready; after `hangs` it is
    killed and started again, with the turns of its shard.
    """

    ping_interval: float = 3.0
    silent: float = 3.0
    hangs: float = 30.0


def follow_nothing(tell: TellInterest) -> Leave:
    """Nobody takes occurrences, ever."""
    return lambda: None


class WorkerContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the service gives its worker processes.

    `config_for` makes the configuration for the next start of a shard's process, `new_parent` what answers
    its calls. `on_restart` is called with the shard of a process that had died and takes calls again.
    `follow_interest` tells whether somebody takes occurrences (`telemetry.event_source.Occurrences`).
    """

    config_for: Callable[[int], WorkerConfig]
    new_parent: Callable[[], ParentService]
    on_restart: Callable[[int], None]
    log: Log
    follow_interest: Callable[[TellInterest], Leave] = follow_nothing
    limits: WatchLimits = msgspec.field(default_factory=WatchLimits)


def longest_stop(grace: int) -> float:
    """The seconds within which a process that may drain for `grace` ms has stopped.

    Its history may hang: then it waits for it after the drain, and says so in the log.
    """
    return (grace + LEAST_PATIENCE_MS) / SECOND + EXIT_TIMEOUT_SECONDS


class WorkerDied(Exception):
    """The process has ended before it answered."""

    def __str__(self) -> str:
        return "it ended before it was ready"


class WorkerSupervisor:
    """Keeps the process of one shard running, from its first start on."""

    def __init__(self, *, worker: WorkerHandle, process: WorkerProcess, context: WorkerContext) -> None:
        self._worker = worker
        self._process = process
        self._context = context
        self._limits = context.limits
        self._log = context.log
        self._connection: RpcConnection | None = None
        self._running: asyncio.Task[None] | None = None
        self._cut = asyncio.Event()

    @property
    def pid(self) -> int:
        """The id of the process, or of the one that ended last."""
        return self._process.pid

    async def open(self) -> None:
        """Has the process open its shard; one that dies over it is started again.

        Raises the StoreError with which it refuses.
        """
        try:
            await self._open()
        except WorkerDied:
            await self._replace(self._begin)

    async def start(self) -> None:
        """Has the shard recover, then passes calls to it; whenever the process dies, it is started again.

        Raises the StoreError with which it refuses.
        """
        try:
            await self._connect()
        except WorkerDied:
            await self._replace(self._begin_anew)
        self._running = asyncio.create_task(self._run())

    async def stop(self, grace: int) -> None:
        """Drains the shard for at most `grace` ms and ends the process; one that stands still is killed."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        if self._connection is not None and not self._cut.is_set():
            try:
                await self._drain(self._connection, grace)
            except (StoreError, TimeoutError) as error:
                why = str(error) or "it does not answer"  # a TimeoutError says nothing
                self._log("worker_not_stopped", worker=self._worker.shard, error=why)
                self._process.kill()
        await self.end()

    async def end(self) -> int:
        """Cuts the connection and returns the exit code of the process, which ends then or is killed."""
        if self._connection is not None:
            self._connection.close()
        return await self._process.end()

    async def _drain(self, connection: RpcConnection, grace: int) -> None:
        """Raises StoreError, and TimeoutError where the process does not answer in time."""
        async with asyncio.timeout(longest_stop(grace)):
            draining = asyncio.ensure_future(rpc_methods.STOP.call(connection, grace))
            try:
                await asyncio.wait({draining}, timeout=grace / SECOND)
                if not draining.done():
                    async with asyncio.timeout(LAST_SIGN_SECONDS):
                        await rpc_methods.PING.call(connection, None)
                await draining
            finally:
                draining.cancel()

    async def _begin(self) -> None:
        """Starts another process and has it open the shard."""
        self._process = await WorkerProcess.launch()
        await self._open()

    async def _begin_anew(self) -> None:
        """Starts another process, which recovers and takes calls."""
        await self._begin()
        await self._connect()

    async def _open(self) -> None:
        cut = self._cut = asyncio.Event()
        parent = self._context.new_parent()

        ends = [self._worker.disconnect, parent.end, cut.set]

        def lose() -> None:
            for end in ends:
                end()

        connection = self._connection = await RpcConnection.open(
            self._process.hand_over(),
            serve=parent.serve,
            on_notice=parent.take_notice,
            on_lost=lose,
            log=self._log,
        )
        config = self._context.config_for(self._worker.shard)
        await self._while_alive(rpc_methods.OPEN.call(connection, config))
        # Before it fires: whoever takes occurrences gets those of its recovery, too.
        ends.append(
            self._context.follow_interest(lambda wanted: rpc_methods.LISTEN.notify(connection, wanted))
        )
        if cut.is_set():
            ends[-1]()

    async def _connect(self) -> None:
        connection = self._connection
        assert connection is not None, "opened before"
        await self._while_alive(rpc_methods.START.call(connection, None))
        if self._cut.is_set():
            raise WorkerDied
        self._worker.connect(connection)

    async def _run(self) -> None:
        """Starts the process again whenever it has died."""
        while True:
            await self._watch()
            await self._replace(self._begin_anew, refuses=False)
            self._context.on_restart(self._worker.shard)

    async def _replace(self, begin: Callable[[], Awaitable[None]], *, refuses: bool = True) -> None:
        """Buries the process that has died, and repeats `begin` with growing pauses until it succeeds.

        `refuses`: a StoreError is raised, for it is the answer of a process that lives.
        """
        self._log("worker_lost", worker=self._worker.shard, exit=await self.end())
        for pause in doubling_pauses(FIRST_RESTART_PAUSE_SECONDS, LONGEST_RESTART_PAUSE_SECONDS):
            try:
                await begin()
            except Exception as error:
                if refuses and isinstance(error, StoreError):
                    raise
                self._log("worker_not_started", worker=self._worker.shard, error=str(error) or repr(error))
                await self.end()
            else:
                self._log("worker_restarted", worker=self._worker.shard)
                return
            await asyncio.sleep(pause)

    async def _watch(self) -> None:
        """Returns when the process has died; one that does not answer is killed."""
        while not self._cut.is_set():
            try:
                async with asyncio.timeout(self._limits.ping_interval):
                    await self._cut.wait()
            except TimeoutError:
                await self._ping()

    async def _while_alive(self, work: Coroutine[Any, Any, None]) -> None:
        """Waits for `work`, however long it takes, while the process answers pings.

        Raises the StoreError that it answers, and WorkerDied.
        """
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=self._limits.ping_interval)
                if not task.done():
                    await self._ping()
            await task
        except StoreError as error:
            if not self._cut.is_set():
                raise
            raise WorkerDied from error
        finally:
            task.cancel()

    def _note_silence(self, answer: "asyncio.Future[None]") -> bool:
        """Whether there is no answer yet; then nothing is sent to the process, and the log says so.

        Of one that starts it does not: its imports may take their time.
        """
        self._worker.is_silent = not answer.done()
        if self._worker.is_silent and self._worker.is_up:
            self._log("worker_stalled", worker=self._worker.shard, pid=self.pid, seconds=self._limits.silent)
        return self._worker.is_silent

    def _note_answer(self) -> None:
        if self._worker.is_silent:
            self._worker.is_silent = False
            if self._worker.is_up:
                self._log("worker_answered", worker=self._worker.shard)

    async def _ping(self) -> None:
        """Returns with the answer, or when a process that does not answer has been killed.

        Cancelled, it leaves the process as one that takes calls: nobody would say so later.
        """
        assert self._connection is not None, "opened before"
        silent, hangs = self._limits.silent, self._limits.hangs
        answer = asyncio.ensure_future(rpc_methods.PING.call(self._connection, None))
        try:
            await asyncio.wait({answer}, timeout=silent)
            if self._note_silence(answer):
                await asyncio.wait({answer}, timeout=hangs - silent)
            if answer.done():
                self._note_answer()
                answer.exception()  # the process has died: the connection reports it
                return
        except asyncio.CancelledError:
            self._worker.is_silent = False
            raise
        finally:
            answer.cancel()
        self._log("worker_stuck", worker=self._worker.shard, seconds=hangs)
        self._process.kill()
        await self._cut.wait()


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
