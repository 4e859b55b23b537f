"""PostgreSQL for a cluster on one machine, created at the first start in a folder of its own."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from scheduler_service.demo.programs import STOP_SECONDS, Program

USER = "punctual"
# PostgreSQL refuses to run as root: then it runs as the distribution's user for it, with the right to pass
# through folders that only root may enter.
SERVER_USER = "postgres"
AS_SERVER_USER = ("--reuid", SERVER_USER, "--regid", SERVER_USER, "--init-groups")
MAY_PASS = ("--inh-caps", "+dac_override", "--ambient-caps", "+dac_override")


class Postgres(Program):
    """A server on loopback without passwords; its data stay after it has ended."""

    def __init__(self, *, initdb: str, folder: Path, port: int) -> None:
        """The other programs of the same version lie beside `initdb`."""
        self._own = folder / "postgres"
        self._initdb = initdb
        self.url = f"postgresql://{USER}@127.0.0.1:{port}/postgres"
        super().__init__(
            "postgres",
            [*_prefix(), _beside(initdb, "postgres"), *_options(self._own / "data", port)],
            folder=folder,
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
