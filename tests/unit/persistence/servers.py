"""Database servers of the tests' own, from the machine's packages, on ports and in folders of their own."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from scheduler_service.persistence.job_store.job_store_schema import MIGRATIONS as CLUSTER
from scheduler_service.persistence.sql.database import Database
from tests.ports import free_port

_BIN = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
USER = "postgres"
MARIADB_USER = "mysql"
START_SECONDS = 60
LOOK = 0.05
SMALL = "--innodb-log-file-size=8M"


class DatabaseServer(Protocol):
    """A server that can be stopped without a word and started again over what it kept."""

    @property
    def url(self) -> str:
        """Its address, without a database."""

    def start(self) -> None:
        """Returns when it answers."""

    def stop(self) -> None:
        """Ends it as a crash would, with all connections."""

    def remove(self) -> None:
        """Stops it and leaves nothing of it."""


class PostgresServer:
    """A DatabaseServer."""

    def __init__(self) -> None:
        """Makes its files; skips where PostgreSQL is not installed."""
        if not _BIN or shutil.which("setpriv") is None:
            pytest.skip("PostgreSQL is missing (Debian, Ubuntu: apt-get install postgresql)")
        self.folder = _make_folder("punctual-pg-")
        self._data = str(self.folder / "data")
        self._port = free_port()
        self.url = f"postgresql://{USER}@127.0.0.1:{self._port}"
        self._run("initdb", "-D", self._data, "-A", "trust", "-U", USER, "-E", "UTF8", "--no-sync")
        with (self.folder / "data" / "postgresql.conf").open("a") as settings:
            settings.write("fsync = off\n")  # not an option of its start: a test may set it

    def start(self) -> None:
        options = f"-p {self._port} -h 127.0.0.1 -k {self.folder} -c max_connections=100"
        log = str(self.folder / "log")
        self._run("pg_ctl", "-D", self._data, "-o", options, "-w", "-l", log, "start")

    def stop(self) -> None:
        if (self.folder / "data" / "postmaster.pid").exists():
            self._run("pg_ctl", "-D", self._data, "-m", "immediate", "stop")

    def remove(self) -> None:
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        _run(self.folder, USER, str(_BIN[-1] / program), *arguments)


class MariaDbServer:
    """A DatabaseServer; `options` are those of its start."""

    def __init__(self, *options: str) -> None:
        """Makes its files; skips where MariaDB is not installed."""
        install, self._program = (_find(name) for name in ("mariadb-install-db", "mariadbd"))
        if install is None or self._program is None or shutil.which("setpriv") is None:
            pytest.skip("MariaDB is missing (Debian, Ubuntu: apt-get install mariadb-server)")
        self.folder = _make_folder("punctual-maria-")
        self._data = self.folder / "data"
        self._port = free_port()
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"mysql://root@127.0.0.1:{self._port}"
        # In a common one each server that starts removes the temporary tables of the others.
        own = f"--tmpdir={self.folder}"
        given = ("--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", own)
        _run(self.folder, MARIADB_USER, install, "--no-defaults", f"--datadir={self._data}", SMALL, *given)

    def start(self) -> None:
        assert self._program is not None
        given = (
            "--no-defaults", f"--datadir={self._data}", f"--port={self._port}", "--bind-address=127.0.0.1",
            f"--socket={self.folder}/socket", f"--pid-file={self.folder}/pid", "--skip-name-resolve",
            f"--tmpdir={self.folder}", SMALL,
            "--innodb-flush-log-at-trx-commit=2", "--innodb-flush-method=nosync", "--max-connections=100",
            # What nobody should rely on: texts in another encoding, values that are cut to fit.
            "--character-set-server=latin1", "--sql-mode=", *self._options,
        )  # fmt: skip
        with (self.folder / "log").open("ab") as log:
            command = _as_user(self.folder, MARIADB_USER, self._program, *given)
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        until = time.monotonic() + START_SECONDS
        while not self._answers():
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < until, (self.folder / "log").read_text()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(LOOK)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _answers(self) -> bool:
        import pymysql

        try:
            pymysql.connect(
                host="127.0.0.1", port=self._port, user="root", connect_timeout=1, ssl_disabled=True
            ).close()
        except pymysql.Error:
            return False
        return True


@pytest.fixture(scope="session")
def postgres() -> Iterator[DatabaseServer]:
    """A running server; skips where PostgreSQL is not installed."""
    yield from _running(PostgresServer())


@pytest.fixture(scope="session")
def postgres_server(postgres: DatabaseServer) -> str:
    """Its address."""
    return postgres.url


@pytest.fixture(scope="session")
def mariadb() -> Iterator[DatabaseServer]:
    """A running server; skips where MariaDB is not installed."""
    yield from _running(MariaDbServer())


@pytest.fixture(scope="session")
def mariadb_server(mariadb: DatabaseServer) -> str:
    """Its address."""
    return mariadb.url


@pytest.fixture(params=["postgres", "mariadb"])
def fragile_server(request: pytest.FixtureRequest) -> Iterator[DatabaseServer]:
    """Each of them, which the test may stop and start."""
    server: DatabaseServer = request.getfixturevalue(request.param)
    yield server
    server.stop()
    server.start()


@pytest.fixture(params=["postgres_server", "mariadb_server"])
def each_server(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database of its own for one test, on each server."""
    yield from lend_database(request.getfixturevalue(request.param))


@pytest.fixture
def shared_urls(postgres_server: str) -> Iterator[str]:
    """A database of its own for one test."""
    yield from lend_database(postgres_server)


@pytest.fixture(scope="session")
def postgres_cluster(postgres_server: str) -> str:
    """A database with the tables of a cluster, for one test after the other."""
    return _make_cluster(postgres_server)


@pytest.fixture
def postgres_cluster_url(postgres_cluster: str) -> str:
    """The same, emptied: much quicker than a database for each."""
    return _emptied(postgres_cluster)


@pytest.fixture(scope="session")
def mariadb_cluster(mariadb_server: str) -> str:
    """A database with the tables of a cluster, for one test after the other."""
    return _make_cluster(mariadb_server)


@pytest.fixture
def mariadb_cluster_url(mariadb_cluster: str) -> str:
    """The same, emptied."""
    return _emptied(mariadb_cluster)


def _make_cluster(server: str) -> str:
    url = make_database(server)
    Database(url=url, migrations=CLUSTER).close()
    return url


def _emptied(url: str) -> str:
    command(url, *(f"DELETE FROM {table}" for table in CLUSTER.tables))
    return url


def make_database(server: str, like: str = "") -> str:
    """The address of a new database, `like` as `CREATE DATABASE` has it."""
    name = f"t{uuid.uuid4().hex[:12]}"
    command(server, f"CREATE DATABASE {name} {like}")
    return f"{server}/{name}"


def lend_database(server: str) -> Iterator[str]:
    """A new database for one test. Of PostgreSQL it is gone afterwards: one without tables has 300 files."""
    url = make_database(server)
    yield url
    if server.startswith("postgresql:"):
        command(server, f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")


def command(server: str, *texts: str) -> None:
    """Runs statements outside of transactions; the address may name a database."""
    if server.startswith("mysql:"):
        import pymysql
        from sqlalchemy import make_url

        place = make_url(server)
        with pymysql.connect(
            host=place.host,
            port=place.port,
            user="root",
            database=place.database,
            autocommit=True,
            ssl_disabled=True,  # to load authorities, which it does for each connection, takes 20 ms
        ) as opened:
            for text in texts:
                opened.cursor().execute(text)
        return
    import psycopg

    address = server if server.count("/") > 2 else f"{server}/postgres"
    with psycopg.connect(address, autocommit=True) as connection:
        for text in texts:
            connection.execute(text)  # type: ignore[arg-type]


def _running(server: DatabaseServer) -> Iterator[DatabaseServer]:
    try:
        server.start()
        yield server
    finally:
        server.remove()


def _make_folder(prefix: str) -> Path:
    """In memory where the run has its files there: tens of thousands take a minute to remove from a disk."""
    return Path(tempfile.mkdtemp(prefix=prefix, dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))


def _find(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def _run(folder: Path, user: str, *command: str) -> None:
    given = _as_user(folder, user, *command)
    done = subprocess.run(given, capture_output=True, text=True, cwd=folder, timeout=60, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


def _as_user(folder: Path, user: str, *command: str) -> list[str]:
    """Where this is root, which servers refuse to be: as their own user."""
    if os.geteuid() != 0:
        return list(command)
    shutil.chown(folder, user, user)
    return ["setpriv", "--reuid", user, "--regid", user, "--init-groups", *command]
