"""Who takes part, with which store, in which kinds of work."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from tests.bench.compare.processes import (
    ROOT,
    Cores,
    Store,
    find_postgres,
    folder_alone,
    nothing,
    postgres,
    redis,
)
from tests.bench.compare.results import CHAIN, HERD, SINGLE, STEADY

PEERS = ROOT / "tests" / "bench" / "peers"
SECONDS = 600  # an installation that takes longer is given up


class NotInstalledError(Exception):
    """Packages could not be installed; the message says which and why."""


class Cache:
    """Finds and installs what the peers need."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.modules = folder / "node" / "node_modules"

    def python(self, program: str) -> Path:
        """The interpreter with a program's packages."""
        return self._folder / program / "bin" / "python"

    def prepare_python(self, program: str) -> None:
        """Makes an environment with the packages of a program. Raises NotInstalledError."""
        wanted, place = PEERS / "requirements" / f"{program}.txt", self._folder / program
        mark = place / "installed"
        if _says(mark, text := f"{sys.version}\n{wanted.read_text()}"):
            return
        _run([sys.executable, "-m", "venv", "--clear", str(place)], self._folder)
        pip = [str(self.python(program)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "-r", str(wanted)], self._folder)
        mark.write_text(text)

    def prepare_node(self) -> None:
        """Makes a folder with the packages of package.json. Raises NotInstalledError."""
        wanted = PEERS / "package.json"
        mark = self.modules / "installed"
        if _says(mark, wanted.read_text()):
            return
        self.modules.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(wanted, self.modules.parent)
        _run(["npm", "install", "--no-package-lock", "--no-audit", "--no-fund"], self.modules.parent)
        mark.write_text(wanted.read_text())


def open_cache() -> Cache:
    """The cache that the environment names, or the default one."""
    named = os.environ.get("PUNCTUAL_BENCH_CACHE")
    return Cache(Path(named).expanduser() if named else Path.home() / ".cache" / "punctual-bench")


def pinned_versions(program: str) -> dict[str, str]:
    """name → version of all that is pinned for a program; empty for one without packages of its own."""
    if program.endswith(".cjs"):
        found: dict[str, str] = json.loads((PEERS / "package.json").read_text())["dependencies"]
        return found
    wanted = PEERS / "requirements" / f"{program}.txt"
    lines = wanted.read_text().splitlines() if wanted.is_file() else []
    return {name: version for name, _, version in (line.partition("==") for line in lines)}


def _says(mark: Path, text: str) -> bool:
    return mark.is_file() and mark.read_text() == text


def _run(command: list[str], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.CalledProcessError as error:
        reason = (error.stderr.strip() or "no message").splitlines()[-1]
        raise NotInstalledError(f"{' '.join(command[:4])} … failed: {reason}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalledError(f"{' '.join(command[:4])} … failed: {error}") from error


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
