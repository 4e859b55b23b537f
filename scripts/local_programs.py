"""Finds, starts, watches and stops the programs of a cluster on one machine.

As a program it names those that are missing, with the standard library alone: before anything is installed.
"""

import contextlib
import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from scheduler_service.demo.child_programs import tied_command

DAPR_BIN_VARIABLE = "PUNCTUAL_DAPR_BIN"
POSTGRES_VERSIONS = Path("/usr/lib/postgresql")
START_SECONDS = STOP_SECONDS = 30.0
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
INSTALL_HINTS = {
    "redis-server": "Debian, Ubuntu: apt-get install redis-server",
    "initdb": "Debian, Ubuntu: apt-get install postgresql",
    "placement": "dapr init --slim, or name its folder in PUNCTUAL_DAPR_BIN",
    "scheduler": "dapr init --slim, or name its folder in PUNCTUAL_DAPR_BIN",
    "daprd": "dapr init --slim, or name its folder in PUNCTUAL_DAPR_BIN",
}
USER = "punctual"
MISSING = 2
"""The exit code where a program is missing."""

# PostgreSQL refuses to run as root: then it runs as the distribution's user for it, with the right to pass
# through folders that only root may enter.
SERVER_USER = "postgres"
AS_SERVER_USER = ("--reuid", SERVER_USER, "--regid", SERVER_USER, "--init-groups")
MAY_PASS = ("--inh-caps", "+dac_override", "--ambient-caps", "+dac_override")


def find_programs(environ: Mapping[str, str], versions: Path = POSTGRES_VERSIONS) -> dict[str, str]:
    """name → path of each program found in $PUNCTUAL_DAPR_BIN, on PATH, in ~/.dapr/bin, and in Debian's
    folder of PostgreSQL `versions`, the newest first.
    """
    home = Path(environ.get("HOME", "/")) / ".dapr" / "bin"
    servers = sorted(versions.glob("*/bin"), key=_version_of, reverse=True)
    path = os.pathsep.join(
        [environ.get(DAPR_BIN_VARIABLE, ""), environ.get("PATH", ""), str(home), *map(str, servers)]
    )
    found = {name: shutil.which(name, path=path) for name in INSTALL_HINTS}
    return {name: program for name, program in found.items() if program is not None}


def _version_of(folder: Path) -> int:
    return int(folder.parent.name) if folder.parent.name.isdecimal() else 0


def name_missing() -> int:
    """Prints a line for each with its remedy; an exit code."""
    missing = describe_missing(find_programs(os.environ))
    if missing:
        print("\n".join(missing))
    return MISSING if missing else 0


def describe_missing(found: Mapping[str, str]) -> list[str]:
    """What to install, a line for each missing program."""
    return [f"{name} is missing: {where}" for name, where in INSTALL_HINTS.items() if name not in found]


@contextlib.contextmanager
def delay_signals() -> Iterator[None]:
    """Delays SIGINT and SIGTERM until the block ends, so that no process is started without being recorded.

    Does nothing outside the main thread, which gets no signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    before = {one: signal.signal(one, lambda number, _: received.append(number)) for one in STOP_SIGNALS}
    try:
        yield
    finally:
        for stopping, handler in before.items():
            signal.signal(stopping, handler)
    for number in received:
        signal.raise_signal(number)


class DemoProgram:
    """One program with a log file. `is_up` checks whether it serves; `user` stands before its command."""

    ENDED_BY = signal.SIGKILL
    """What a tied program is sent when this process has ended: state that counts is durable."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        folder: Path,
        is_up: Callable[[], bool],
        environ: Mapping[str, str] | None = None,
        user: Sequence[str] = (),
    ) -> None:
        self.name = name
        self._before = list(user)
        self.command = list(command)
        self.log = folder / f"{name}.log"
        self._is_up = is_up
        self.environ = {**os.environ, **(environ or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the running process."""
        assert self._process is not None, f"{self.name} was not started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process is running."""
        return self._process is not None and self._process.poll() is None

    def tie(self) -> None:
        """From its next start on it ends with this process, even where that is killed (Linux)."""
        self._before += tied_command(self.ENDED_BY)

    def start(self) -> None:
        """Starts it; returns at once."""
        with self.log.open("ab") as log, delay_signals():
            self._process = subprocess.Popen(  # noqa: S603 - a program that was looked up by name
                [*self._before, *self.command],
                stdout=log,
                stderr=log,
                env=self.environ,
                start_new_session=True,
            )

    def wait(self, seconds: float = START_SECONDS) -> bool:
        """Whether it serves within `seconds`."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not self.is_running:
                return False
            if self._is_up():
                return True
            time.sleep(0.1)
        return False

    def send(self, number: int) -> None:
        """Sends a signal."""
        if self.is_running:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kills it (SIGKILL)."""
        self.send(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Terminates it, and kills it if it is still running after `seconds`."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def last_lines(self, count: int = 5) -> str:
        """The end of its log."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-count:])


class Postgres(DemoProgram):
    """A server on loopback without passwords; its data stay after it has ended."""

    ENDED_BY = signal.SIGINT
    """Its processes end with it; after SIGKILL they may still be there at the next start, and prevent it."""

    def __init__(self, *, initdb: str, folder: Path, port: int) -> None:
        """The other programs of the same version lie beside `initdb`."""
        self._own = folder / "postgres"
        self._initdb = initdb
        self.url = f"postgresql://{USER}@127.0.0.1:{port}/postgres"
        super().__init__(
            "postgres",
            [_beside(initdb, "postgres"), *_options(self._own / "data", port)],
            folder=folder,
            user=_prefix(),
            is_up=_answers(_beside(initdb, "pg_isready"), port),
        )

    def start(self) -> None:
        """Creates its files if there are none, then starts it. Failures are in its log."""
        if not (self._own / "data" / "PG_VERSION").exists():
            self._make()
        super().start()

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Ends it without waiting for its clients to disconnect."""
        self.send(signal.SIGINT)
        super().stop(seconds)

    def _make(self) -> None:
        self._own.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            shutil.chown(self._own, SERVER_USER, SERVER_USER)
        given = ["-A", "trust", "-U", USER, "-E", "UTF8", "--no-locale", "-D", str(self._own / "data")]
        with self.log.open("ab") as log:
            subprocess.run(  # noqa: S603 - a program that was looked up by name
                [*_prefix(), self._initdb, *given], stdout=log, stderr=log, check=False
            )


def listens(port: int) -> Callable[[], bool]:
    """A check whether connections to `port` are accepted."""

    def check() -> bool:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=0.5):
                return True
        except OSError:
            return False

    return check


def is_ready(port: int) -> Callable[[], bool]:
    """A check whether the node on `port` is ready."""

    def check() -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        try:
            connection.request("GET", "/health/ready")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    return check


PYTHON = sys.executable


def _options(data: Path, port: int) -> Sequence[str]:
    """No Unix socket: the folder's path may be too long for one."""
    return ["-D", str(data), "-h", "127.0.0.1", "-p", str(port), "-c", "unix_socket_directories="]


def _answers(program: str, port: int) -> Callable[[], bool]:
    """Whether it accepts connections: after a crash it listens before it accepts any."""

    def is_up() -> bool:
        command = [program, "-q", "-h", "127.0.0.1", "-p", str(port), "-t", "1"]
        return subprocess.run(command, check=False).returncode == 0  # noqa: S603 - as above

    return is_up


def _beside(initdb: str, name: str) -> str:
    return str(Path(initdb).resolve().with_name(name))


def _prefix() -> Sequence[str]:
    return ["setpriv", *AS_SERVER_USER, *MAY_PASS] if os.geteuid() == 0 else []


if __name__ == "__main__":
    sys.exit(name_missing())
