"""The stores that peers need, each a server on loopback with a port and a folder of its own."""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.compare.processes import Cores, started
from tests.ports import free_port

USER = "postgres"  # PostgreSQL refuses to run as root
REDIS = ("--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--loglevel", "warning")
POSTGRES = (
    "fsync=on",
    "synchronous_commit=off",
    "shared_buffers=256MB",
    "max_connections=50",
    "autovacuum_naptime=10s",
    "jit=off",
)


@dataclass(frozen=True)
class Store:
    """Where a peer finds its store, and the process of the server, if there is one."""

    address: str
    server: int | None


@contextlib.contextmanager
def redis(folder: Path, cores: Cores) -> Iterator[Store]:
    """Redis without persistence: the fastest that it can be."""
    port = free_port()
    command = ["redis-server", "--port", str(port), "--dir", str(folder), *REDIS]
    with started(command, cores.others) as server:
        _await_port(port)
        yield Store(f"redis://127.0.0.1:{port}/0", server.pid)


@contextlib.contextmanager
def postgres(folder: Path, cores: Cores) -> Iterator[Store]:
    """PostgreSQL that answers a commit before it is on the disk."""
    user = USER if os.geteuid() == 0 else None
    data, port = folder / "data", free_port()
    if user:
        shutil.chown(folder, user)
        folder.parent.chmod(0o755)
    name = user or pwd.getpwuid(os.geteuid()).pw_name
    make = [find_postgres("initdb"), "-D", str(data), "-U", name, "-A", "trust", "-E", "UTF8", "--no-sync"]
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL, user=user, cwd=folder)
    settings = (*POSTGRES, "listen_addresses=127.0.0.1", f"unix_socket_directories={folder}")
    options = [part for setting in settings for part in ("-c", setting)]
    command = [find_postgres("postgres"), "-D", str(data), "-p", str(port), *options]
    quiet: dict[str, Any] = {"stderr": subprocess.DEVNULL, "user": user, "cwd": folder}
    with started(command, cores.others, signal.SIGINT, **quiet) as server:
        _await_port(port)
        yield Store(f"postgresql://{name}@127.0.0.1:{port}/postgres", server.pid)


@contextlib.contextmanager
def folder_alone(folder: Path, cores: Cores) -> Iterator[Store]:
    """For those who keep a file: no server."""
    yield Store(str(folder), None)


@contextlib.contextmanager
def nothing(folder: Path, cores: Cores) -> Iterator[Store]:
    """For those who keep their jobs in memory."""
    yield Store("", None)


def find_postgres(program: str) -> str:
    """A program of PostgreSQL, which distributions do not put on the path; empty when it is missing."""
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"), reverse=True)
    return shutil.which(program) or next(map(str, places), "")


def _await_port(port: int, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
