"""A real process of the command line; whoever waits for it waits for what it says, with a deadline."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

PATIENCE = 30.0
COMMAND = (sys.executable, "-m", "scheduler_service")


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
        self.popen = subprocess.Popen(
            arguments,
            cwd=cwd,
            env=dict(environ or bare_environment()),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        streams = ((self.popen.stdout, self.out), (self.popen.stderr, self.err))
        self._readers = [threading.Thread(target=self._read, args=pair, daemon=True) for pair in streams]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        if self.popen.poll() is None:
            os.killpg(self.popen.pid, signal.SIGKILL)
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
        self.popen.send_signal(number)

    def wait(self) -> int:
        """Its exit code, once it has ended and everything that it said is there."""
        code = self.popen.wait(PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)
        for stream in (self.popen.stdout, self.popen.stderr):
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


def serve(data: Path, *further: str, **environ: str) -> Process:
    """`punctual serve` on a free port."""
    arguments = [*COMMAND, "serve", "--port", "0", "--data", str(data), *further]
    return Process(arguments, cwd=data.parent, environ=bare_environment(**environ))


def free_port() -> str:
    """A port that nobody uses at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])
