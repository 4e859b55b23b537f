"""Processes of the comparison: on which cores they run, what they use, how they end; the peers' stores."""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.ports import free_port

TICKS = os.sysconf("SC_CLK_TCK")
ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Cores:
    """Where the scheduler runs, and where all else: target, store servers, clients, this program."""

    scheduler: tuple[int, ...]
    others: tuple[int, ...]


def find_cores() -> Cores:
    """All cores for the scheduler, all but the last for the others.

    So a scheduler whose store is within its process has as many cores for both as one whose store is a
    server, and one core is the scheduler's alone.
    """
    allowed = sorted(os.sched_getaffinity(0))
    return Cores(scheduler=tuple(allowed), others=tuple(allowed[:-1] or allowed))


@contextlib.contextmanager
def started(
    command: Sequence[str], cores: Iterable[int], /, ending: signal.Signals = signal.SIGTERM, **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """A process in a group of its own, on these cores, with pipes of text; gone afterwards with its group."""
    process = subprocess.Popen(
        command,
        text=True,
        start_new_session=True,
        preexec_fn=_pin(tuple(cores)),
        **{"cwd": ROOT, "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **options},
    )
    try:
        yield process
    finally:
        _end(process, ending)


def cpu_seconds(root: int) -> float:
    """What a process and all below it have used, those that have ended included."""
    below, ticks = defaultdict(list), {}
    for pid, parent, used in _processes():
        below[parent].append(pid)
        ticks[pid] = used
    tree, found = [root], 0
    while tree:
        pid = tree.pop()
        found += ticks.get(pid, 0)
        tree += below[pid]
    return found / TICKS


def busy_seconds() -> float:
    """What all processes of the machine have used together."""
    user, nice, system, _, _, irq, soft, *_ = Path("/proc/stat").read_text().split()[1:]
    return sum(map(int, (user, nice, system, irq, soft))) / TICKS


def _processes() -> Iterator[tuple[int, int, int]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
                yield int(folder.name), int(fields[1]), sum(map(int, fields[11:15]))


def _pin(cores: tuple[int, ...]) -> Callable[[], None]:
    return lambda: os.sched_setaffinity(0, cores)


def _end(process: subprocess.Popen[str], ending: signal.Signals) -> None:
    process.send_signal(ending)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)
    with contextlib.suppress(ProcessLookupError):  # what it has left behind
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


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
