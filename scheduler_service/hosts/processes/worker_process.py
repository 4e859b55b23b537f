"""A worker process of the operating system, and our end of the socket to it."""

import asyncio
import socket
import subprocess
import sys
from typing import Self

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
