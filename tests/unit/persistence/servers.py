"""A PostgreSQL of the tests' own, from the machine's packages, on a port and in a folder of its own."""

import os
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

_BIN = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
USER = "postgres"


class PostgresServer:
    """A server that can be stopped without a word and started again over what it kept."""

    def __init__(self) -> None:
        """Makes its files; skips where PostgreSQL is not installed."""
        if not _BIN or shutil.which("setpriv") is None:
            pytest.skip("PostgreSQL is missing (Debian, Ubuntu: apt-get install postgresql)")
        self.folder = Path(tempfile.mkdtemp(prefix="punctual-pg-"))
        self._data = str(self.folder / "data")
        self._port = _free_port()
        self.url = f"postgresql://{USER}@127.0.0.1:{self._port}"
        _run(self.folder, "initdb", "-D", self._data, "-A", "trust", "-U", USER, "-E", "UTF8", "--no-sync")
        with (self.folder / "data" / "postgresql.conf").open("a") as settings:
            settings.write("fsync = off\n")  # not an option of its start: a test may set it

    def start(self) -> None:
        """Returns when it answers."""
        options = f"-p {self._port} -h 127.0.0.1 -k {self.folder} -c max_connections=60"
        log = str(self.folder / "log")
        _run(self.folder, "pg_ctl", "-D", self._data, "-o", options, "-w", "-l", log, "start")

    def stop(self) -> None:
        """Ends it as a crash would, with all connections."""
        if (self.folder / "data" / "postmaster.pid").exists():
            _run(self.folder, "pg_ctl", "-D", self._data, "-m", "immediate", "stop")

    def remove(self) -> None:
        """Stops it and leaves nothing of it."""
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a running server; skips where PostgreSQL is not installed."""
    server = PostgresServer()
    try:
        server.start()
        yield server.url
    finally:
        server.remove()


@pytest.fixture
def shared_urls(postgres_server: str) -> str:
    """A database of its own for one test."""
    return make_database(postgres_server)


def make_database(server: str, like: str = "") -> str:
    """The address of a new database, `like` as `CREATE DATABASE` has it."""
    name = f"t{uuid.uuid4().hex[:12]}"
    command(server, f"CREATE DATABASE {name} {like}")
    return f"{server}/{name}"


def command(server: str, text: str) -> None:
    """Runs a statement outside of transactions."""
    import psycopg

    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(text)  # type: ignore[arg-type]


def _run(folder: Path, program: str, *arguments: str) -> None:
    """Runs a program of PostgreSQL, which refuses to be root, as its own user."""
    prefix: list[str] = []
    if os.geteuid() == 0:
        shutil.chown(folder, USER, USER)
        prefix = ["setpriv", "--reuid", USER, "--regid", USER, "--init-groups"]
    command = [*prefix, str(_BIN[-1] / program), *arguments]
    subprocess.run(command, check=True, capture_output=True, cwd=folder, timeout=60)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
