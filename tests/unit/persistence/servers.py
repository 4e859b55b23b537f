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


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a running server; skips where PostgreSQL is not installed."""
    if not _BIN or shutil.which("setpriv") is None:
        pytest.skip("PostgreSQL is missing (Debian, Ubuntu: apt-get install postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="punctual-pg-"))
    port = _free_port()
    try:
        _run(folder, "initdb", "-D", str(folder / "data"), "-A", "trust", "-U", USER, "--no-sync")
        options = f"-p {port} -h 127.0.0.1 -k {folder} -c fsync=off -c max_connections=60"
        _run(
            folder,
            "pg_ctl",
            "-D",
            str(folder / "data"),
            "-o",
            options,
            "-w",
            "-l",
            str(folder / "log"),
            "start",
        )
        yield f"postgresql://{USER}@127.0.0.1:{port}"
    finally:
        if (folder / "data" / "postmaster.pid").exists():
            _run(folder, "pg_ctl", "-D", str(folder / "data"), "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def shared_urls(postgres_server: str) -> str:
    """A database of its own for one test."""
    import psycopg

    name = f"t{uuid.uuid4().hex[:12]}"
    with psycopg.connect(f"{postgres_server}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
    return f"{postgres_server}/{name}"


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
