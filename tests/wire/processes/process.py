"""A real process of the command line; whoever waits for it waits for what it says, with a deadline."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from tests.forked import Forked

PATIENCE = 90.0
"""Only what never comes takes so long: whoever waits goes on as soon as it is said."""
COMMAND = (sys.executable, "-m", "scheduler_service")
# Started in full, as the pages say it; all others are in `test_documented.py`.
IN_FULL = {"worker"}


def bare_environment(**further: str) -> dict[str, str]:
    """The environment without settings of ours, with this Python's commands first on the PATH."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PUNCTUAL_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    # Coverage and colours of the tests' own run are none of a child's business.
    return {**kept, "PATH": path, "TERM": "xterm-256color", **further}


class Process:
    """A process and all it has said so far. Use it in `with`: it ends with the block."""

    def __init__(
        self, arguments: Sequence[str], *, cwd: Path, environ: Mapping[str, str] | None = None
    ) -> None:
        self.out: list[str] = []
        self.err: list[str] = []
        self._said = threading.Condition()
        self._started = _start(arguments, cwd, dict(environ or bare_environment()))
        streams = ((self._started.stdout, self.out), (self._started.stderr, self.err))
        self._readers = [threading.Thread(target=self._read, args=pair, daemon=True) for pair in streams]
        for reader in self._readers:
            reader.start()

    @property
    def pid(self) -> int:
        """Its process id, also after its end."""
        return self._started.pid

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        if self._started.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and nobody has said so yet
                os.killpg(self.pid, signal.SIGKILL)
        self.wait()

    def wait_for_line(self, pattern: str, *, many: int = 1) -> re.Match[str]:
        """The line of either stream in which `pattern` is found for the `many`th time."""
        deadline = time.monotonic() + PATIENCE
        with self._said:
            while True:
                found = [match for line in (*self.out, *self.err) if (match := re.search(pattern, line))]
                if len(found) >= many:
                    return found[many - 1]
                left = deadline - time.monotonic()
                has_ended = not any(reader.is_alive() for reader in self._readers)
                assert left > 0, f"{pattern!r} was not said in time: {self.out} {self.err}"
                assert not has_ended, f"it ended before {pattern!r}: {self.out} {self.err}"
                self._said.wait(min(left, 0.5))

    def wait_for_url(self) -> str:
        """The address of a service, once it listens."""
        url = json.loads(self.wait_for_line('"listening"').string)["url"]
        assert isinstance(url, str)
        return url

    def send(self, number: signal.Signals) -> None:
        """A signal to the process itself."""
        self._started.send_signal(number)

    def wait_for_exit(self) -> int:
        """Its exit code; what it started may go on, and hold its streams."""
        return self._started.wait(PATIENCE)

    def wait(self) -> int:
        """Its exit code, once it has ended and everything that it said is there."""
        code = self.wait_for_exit()
        for reader in self._readers:
            reader.join(PATIENCE)
        for stream in (self._started.stdout, self._started.stderr):
            assert stream is not None
            stream.close()
        return code

    def stop(self) -> int:
        """Ends it as a supervisor does; its exit code."""
        self.send(signal.SIGTERM)
        return self.wait()

    def _read(self, stream: IO[str], lines: list[str]) -> None:
        for line in stream:
            with self._said:
                lines.append(line.rstrip("\n"))
                self._said.notify_all()


def _start(
    arguments: Sequence[str], cwd: Path, environ: Mapping[str, str]
) -> "Forked | subprocess.Popen[str]":
    if tuple(arguments[:3]) == COMMAND and arguments[3] not in IN_FULL:
        return Forked(arguments[3:], cwd=cwd, environ=environ)
    return subprocess.Popen(
        arguments,
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(
    *arguments: str, cwd: Path, environ: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """A command that ends by itself, and what it said."""
    with Process([*COMMAND, *arguments], cwd=cwd, environ=environ) as process:
        code = process.wait()
    said = ["".join(f"{line}\n" for line in lines) for lines in (process.out, process.err)]
    return subprocess.CompletedProcess(arguments, code, *said)


def serve(data: Path, *further: str, **environ: str) -> Process:
    """`punctual serve` on a free port."""
    port = [] if "--port" in further else ["--port", "0"]
    arguments = [*COMMAND, "serve", *port, "--data", str(data), *further]
    return Process(arguments, cwd=data.parent, environ=bare_environment(**environ))
