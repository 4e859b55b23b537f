"""On what it was measured, and with which versions."""

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from scheduler_service import __version__
from tests.bench.compare.cache import pinned_versions
from tests.bench.compare.legs import NODE, Leg
from tests.bench.compare.processes import ROOT, Cores
from tests.bench.compare.servers import find_postgres

_REVISION = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]


def describe(cores: Cores, legs: Sequence[Leg], runs: int, foreign: Sequence[float]) -> str:
    """A list in Markdown: day, machine, versions, where what ran, and how busy the machine was besides."""
    told = [
        f"{datetime.now(UTC):%Y-%m-%d}; medians of {runs} runs in one session, everybody in turn",
        f"{_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}",
        f"scheduler on cores {_list(cores.scheduler)}; target, servers, clients on {_list(cores.others)}",
        _join({"Punctual": __version__, "at": _output(_REVISION), "Python": platform.python_version()}),
        *_peers(legs),
    ]
    if foreign:
        mean, worst = 100 * sum(foreign) / len(foreign), 100 * max(foreign)
        told.append(
            f"other processes used {mean:.0f} % of one core meanwhile, in the worst run {worst:.0f} %"
        )
    return "\n".join(f"* {one}" for one in told)


def _peers(legs: Sequence[Leg]) -> list[str]:
    programs = dict.fromkeys(leg.program for leg in legs)
    found = [_join(pinned_versions(program)) for program in programs]
    servers = {
        "Node": _number(["node", "--version"]) if any(leg.language == NODE for leg in legs) else "",
        "Redis": _number(["redis-server", "--version"]),
        "PostgreSQL": _number([find_postgres("postgres"), "--version"]),
    }
    return [one for one in (*found, _join(servers)) if one]


def _join(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {found}" for name, found in versions.items() if found)


def _processor() -> str:
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.machine()


def _number(command: list[str]) -> str:
    found = re.search(r"\d+(\.\d+)+", _output(command))
    return found[0] if found else ""


def _output(command: list[str]) -> str:
    if not command[0] or not shutil.which(command[0]):
        return ""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _list(cores: tuple[int, ...]) -> str:
    return ", ".join(map(str, cores))
