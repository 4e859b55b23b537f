"""Who takes part, with which store, in which kinds of work."""

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from tests.bench.compare.cache import PEERS, Cache, NotInstalledError
from tests.bench.compare.processes import Cores
from tests.bench.compare.servers import Store, find_postgres, folder_alone, nothing, postgres, redis
from tests.bench.compare.work import CHAIN, HERD, SINGLE, STEADY

OWN, PYTHON, NODE = "own", "python", "node"


@dataclass(frozen=True)
class Leg:
    """One scheduler; `creates` is a cautious guess of how many jobs a second it takes in."""

    key: str
    title: str
    program: str
    language: str
    store: Callable[[Path, Cores], AbstractContextManager[Store]]
    creates: int
    kinds: tuple[str, ...] = (HERD, STEADY)
    suffix: str = ""
    server: str = ""
    reports: bool = False

    def command(self, cache: Cache) -> list[str]:
        """How the program is started, without its task."""
        if self.language == NODE:
            return ["node", str(PEERS / self.program)]
        python = sys.executable if self.language == OWN else str(cache.python(self.program))
        return [python, "-m", f"tests.bench.peers.{self.program}"]

    def environment(self, cache: Cache) -> dict[str, str]:
        """In which it is started."""
        return {**os.environ, "NODE_PATH": str(cache.modules)}


LEGS = (
    Leg(
        "punctual-0", "Punctual, qos 0", "punctual", OWN, folder_alone, creates=800,
        kinds=(HERD, STEADY, CHAIN, SINGLE), suffix="?qos=0", reports=True,
    ),
    Leg(
        "punctual-1", "Punctual, qos 1", "punctual", OWN, folder_alone, creates=800,
        kinds=(HERD, STEADY, CHAIN, SINGLE), suffix="?qos=1", reports=True,
    ),
    Leg(
        "pair-0", "Punctual, --workers 2, qos 0", "punctual", OWN, folder_alone, creates=800,
        kinds=(HERD, STEADY, CHAIN, SINGLE), suffix="?qos=0&workers=2", reports=True,
    ),
    Leg(
        "pair-1", "Punctual, --workers 2, qos 1", "punctual", OWN, folder_alone, creates=800,
        kinds=(HERD, STEADY, CHAIN, SINGLE), suffix="?qos=1&workers=2", reports=True,
    ),
    Leg(
        "apscheduler-memory", "APScheduler, memory", "apscheduler", PYTHON, nothing, creates=5_000,
        kinds=(HERD, STEADY, CHAIN),
    ),
    Leg("apscheduler-sqlite", "APScheduler, SQLite", "apscheduler", PYTHON, folder_alone, creates=800),
    Leg(
        "bullmq", "BullMQ, Redis", "bullmq.cjs", NODE, redis, creates=3_000,
        kinds=(HERD, STEADY, CHAIN), server="redis-server",
    ),
    Leg("huey", "huey, Redis", "huey", PYTHON, redis, creates=2_000, server="redis-server"),
    Leg("arq", "arq, Redis", "arq", PYTHON, redis, creates=800, server="redis-server"),
    Leg("celery", "Celery, Redis", "celery", PYTHON, redis, creates=500, server="redis-server"),
    Leg(
        "procrastinate", "procrastinate, PostgreSQL", "procrastinate", PYTHON, postgres, creates=2_000,
        server="postgres",
    ),
)  # fmt: skip


def choose(only: Sequence[str]) -> list[Leg]:
    """Those whose key begins with one of the words; all of them without any."""
    unknown = [word for word in only if not any(leg.key.startswith(word) for leg in LEGS)]
    if unknown:
        keys = ", ".join(leg.key for leg in LEGS)
        raise SystemExit(f"compare: nobody is called {unknown[0]!r}; there are {keys}")
    return [leg for leg in LEGS if not only or leg.key.startswith(tuple(only))]


def why_not(leg: Leg, cache: Cache) -> str | None:
    """Why a leg cannot take part here, after its packages have been installed; None when it can."""
    found = {"redis-server": shutil.which("redis-server"), "postgres": find_postgres("postgres"), "": "none"}
    if not found[leg.server]:
        return f"{leg.server} is not installed"
    if leg.language == NODE and not (shutil.which("node") and shutil.which("npm")):
        return "node and npm are not installed"
    try:
        if leg.language == PYTHON:
            cache.prepare_python(leg.program)
        elif leg.language == NODE:
            cache.prepare_node()
    except NotInstalledError as error:
        return str(error)
    return None
