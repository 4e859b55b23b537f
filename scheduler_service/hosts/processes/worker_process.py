"""A worker process from its start to its end, and our end of the socket to it."""

import asyncio
import socket
import subprocess
import sys
from typing import Self

COMMAND = (sys.executable, "-m", "scheduler_service.app.worker_main")
# What a process may take to end once nobody is at the other end of its line, in seconds.
EXIT_LIMIT = 5.0


class WorkerProcess:
    """A process that was started, and a socket that is connected to it until somebody takes that over."""

    def __init__(self, *, process: asyncio.subprocess.Process, end: socket.socket) -> None:
        self._process = process
        self._end: socket.socket | None = end

    @classmethod
    async def launch(cls) -> Self:
        """Starts a process, which imports what it needs and waits for orders."""
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

    def hand_over(self) -> socket.socket:
        """Our end of the socket: whoever takes it closes it."""
        end, self._end = self._end, None
        assert end is not None, "it is handed over once"
        return end

    def kill(self) -> None:
        """Ends the process where it stands; does nothing where it has ended."""
        if self._process.returncode is None:
            self._process.kill()

    async def end(self) -> int:
        """Its exit code: it ends by itself within 5 s of the end of its line, or is killed then."""
        if self._end is not None:
            self._end.close()
        try:
            async with asyncio.timeout(EXIT_LIMIT):
                return await self._process.wait()
        except TimeoutError:
            self.kill()
            return await self._process.wait()


launch = WorkerProcess.launch
