"""A shell that is given one command after the other, as in a terminal."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

PATIENCE = 60.0
END = "end-of-the-command"
# A status that is no success is a failure: no page shows a refused request as one that is done.
BEGIN = 'curl() { command curl --silent --show-error --fail-with-body "$@"; }\n'


class Ended(NamedTuple):
    """How a command ended, and all that it printed."""

    code: int
    printed: str


class Shell:
    """Use it in `with`: what it has started in the background ends with the block."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._popen = subprocess.Popen(
            ["/bin/sh"],
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._write(BEGIN)

    def __enter__(self) -> "Shell":
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()
        self._popen.wait(PATIENCE)
        for stream in (self._popen.stdin, self._popen.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def enter(self, command: str) -> Ended:
        """Variables and the folder stay as the command leaves them; its input is empty."""
        with contextlib.suppress(BrokenPipeError):
            self._write(f"{{ {command}\n}} </dev/null\nprintf '\\n{END} %d\\n' \"$?\"\n")
        watch = threading.Timer(PATIENCE, self._kill)
        watch.start()
        try:
            return self._read()
        finally:
            watch.cancel()

    def _read(self) -> Ended:
        assert self._popen.stdout is not None
        lines: list[str] = []
        for line in self._popen.stdout:
            if line.startswith(END):
                return Ended(int(line.split()[1]), "".join(lines))
            lines.append(line)
        return Ended(-1, "".join([*lines, "(the shell has ended, or the command took too long)\n"]))

    def _write(self, text: str) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.write(text)
        self._popen.stdin.flush()

    def _kill(self) -> None:
        if self._popen.poll() is None:
            os.killpg(self._popen.pid, signal.SIGKILL)
