"""A command of Punctual as a process that is forked from one that has loaded everything (`tests/forking.py`).

It differs from `python -m scheduler_service …` in its start alone, which costs a tenth; what it starts
itself, it starts as ever. One such parent serves all tests of this process, and ends with it.
"""

import atexit
import contextlib
import functools
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import msgspec

from tests.forking import SPENT, Command

ROOT = Path(__file__).parents[1]
# Loading takes a second or two; on a crowded machine a multiple of that.
PATIENCE = 60.0


class Forked:
    """What `subprocess.Popen` is to a program: its process id, its streams, its end."""

    def __init__(self, arguments: Sequence[str], *, cwd: Path, environ: Mapping[str, str]) -> None:
        self.returncode: int | None = None
        with contextlib.ExitStack() as theirs:
            self.stdout, out = _pipe(theirs)
            self.stderr, err = _pipe(theirs)
            self._told, told = os.pipe()
            theirs.callback(os.close, told)
            fork(Command(list(arguments), str(cwd), dict(environ)), out, err, told)
        self._heard = b""
        line = self._hear(PATIENCE)
        assert line, "the process that forks has gone, or does not answer"
        self.pid = int(line)

    def lines(self) -> list[str]:
        """What it says on its standard output to its end."""
        with self.stdout, self.stderr:
            return self.stdout.read().splitlines()

    def poll(self) -> int | None:
        """Its exit code once it has ended."""
        return self._end(0)

    def wait(self, timeout: float) -> int:
        """Its exit code, when it has ended; `TimeoutExpired` where that takes longer."""
        if (code := self._end(timeout)) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Nothing is sent to one that has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def _end(self, timeout: float) -> int | None:
        if self.returncode is None and (line := self._hear(timeout)) is not None:
            self.returncode = int(line or -signal.SIGKILL)
            os.close(self._told)
        return self.returncode

    def _hear(self, timeout: float) -> bytes | None:
        """The next line of the process that forks; empty where that has ended."""
        if b"\n" not in self._heard:
            if not select.select([self._told], [], [], timeout)[0]:
                return None
            self._heard += os.read(self._told, 64)
        line, _, self._heard = self._heard.partition(b"\n")
        return line


def fork(command: Command, out: int, err: int, told: int) -> None:
    """Has it run with these streams; `told` is told its process id, and its exit code when it has ended."""
    socket.send_fds(_parent(), [msgspec.json.encode(command)], [out, err, told])


def spent_seconds() -> float:
    """The CPU of all that have ended."""
    spent: float = SPENT.unpack(os.pread(_costs(), SPENT.size, 0))[0]
    return spent


def _pipe(theirs: contextlib.ExitStack) -> tuple[IO[str], int]:
    """The end to read, and the other one, which is closed here once it has been sent."""
    ours, end = os.pipe()
    theirs.callback(os.close, end)
    return os.fdopen(ours, encoding="utf-8", buffering=1), end


@functools.cache
def _costs() -> int:
    """A file in memory for the process that forks."""
    costs = os.memfd_create("costs")
    os.ftruncate(costs, SPENT.size)
    return costs


@functools.cache
def _parent() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.forking", str(theirs.fileno()), str(_costs())],
            cwd=ROOT,
            pass_fds=[theirs.fileno(), _costs()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def end() -> None:
        ours.close()
        process.wait(PATIENCE)

    atexit.register(end)
    return ours
