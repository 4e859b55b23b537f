"""The comparison as Markdown: the machine, then tables with how many times the peer's figures ours are."""

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from scheduler_service import __version__
from tests.bench.compare.legs import NODE, Leg, pinned_versions
from tests.bench.compare.processes import ROOT, Cores, find_postgres
from tests.bench.compare.results import CHAIN, HERD, SINGLE, STEADY, Summary, Work, ratio

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


Found = Mapping[str, Summary | None]
OURS = "punctual-0"
KEPT = 0.95  # of the rate; who is a second late at the end of 20 s has kept as much
HERD_HEAD = (
    "scheduler", "executions/s", "slowest to fastest run", "Punctual is", "CPU µs each", "Punctual needs",
    "created/s", "lost", "doubled", "early",
)  # fmt: skip
STEADY_HEAD = ("scheduler", "p50 ms", "p99 ms", "max ms", "early", "CPU µs each", "Punctual needs", "kept up")
CHAIN_HEAD = ("scheduler", "chains/s", "slowest to fastest run", "Punctual is", "CPU µs each", "lost")
SINGLE_HEAD = ("scheduler", "created/s")


@dataclass(frozen=True)
class Contestant:
    """A row: who, and why it did not take part, if it did not."""

    key: str
    title: str
    absence: str | None


def render(found: Mapping[str, Found], works: Sequence[Work], legs: Sequence[Contestant]) -> str:
    """A table for each kind of work that anybody did; `found` is kind → key → summary."""
    parts = []
    for work in works:
        rows = [_row(leg, work, found[work.kind]) for leg in legs if leg.key in found[work.kind]]
        if rows:
            parts.append(f"### {_title(work)}\n\n{_table(_HEADS[work.kind], rows)}")
    absent = [f"* {leg.title} is left out: {leg.absence}" for leg in legs if leg.absence]
    return "\n\n".join([*parts, *(["\n".join(absent)] if absent else [])]) + "\n"


def number(value: float | None) -> str:
    """Three digits that matter, counts whole, thousands set apart; a dash for what is missing."""
    if value is None:
        return "-"
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _title(work: Work) -> str:
    if work.kind == STEADY:
        return f"{work.rate:,} one-step jobs a second for {work.count // work.rate} s"
    return {
        HERD: f"{work.count:,} one-step jobs due at one moment",
        CHAIN: f"{work.count:,} three-step chains due at one moment",
        SINGLE: f"{work.count:,} jobs created one by one",
    }[work.kind]


def _row(leg: Contestant, work: Work, found: Found) -> tuple[str, ...]:
    summary = found[leg.key]
    if summary is None:
        return (leg.title, "failed", *["-"] * (len(_HEADS[work.kind]) - 2))
    cells = _CELLS[work.kind]
    return (leg.title, *cells(summary, None if leg.key == OURS else found.get(OURS), work))


def _herd(one: Summary, ours: Summary | None, work: Work) -> tuple[str, ...]:
    return (
        *_rates(one, ours),
        number(one.cpu_us),
        _times(ratio(ours.cpu_us, one.cpu_us) if ours else None),
        number(one.created),
        str(one.lost),
        str(one.doubled),
        str(one.early),
    )


def _steady(one: Summary, ours: Summary | None, work: Work) -> tuple[str, ...]:
    return (
        number(one.p50),
        number(one.p99),
        number(one.worst),
        str(one.early),
        number(one.cpu_us),
        _times(ratio(ours.cpu_us, one.cpu_us) if ours else None),
        "yes" if not one.lost and (one.rate or 0) >= KEPT * work.rate else f"no: {number(one.rate)}/s",
    )


def _chain(one: Summary, ours: Summary | None, work: Work) -> tuple[str, ...]:
    return (*_rates(one, ours), number(one.cpu_us), str(one.lost))


def _single(one: Summary, ours: Summary | None, work: Work) -> tuple[str, ...]:
    return (number(one.created),)


def _rates(one: Summary, ours: Summary | None) -> tuple[str, str, str]:
    spread = f"{number(one.slowest)} to {number(one.fastest)}"
    return number(one.rate), spread, _times(ratio(ours.rate, one.rate) if ours else None)


def _times(value: float | None) -> str:
    return f"{number(value)} ×" if value is not None else "-"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


_HEADS = {HERD: HERD_HEAD, STEADY: STEADY_HEAD, CHAIN: CHAIN_HEAD, SINGLE: SINGLE_HEAD}
_CELLS = {HERD: _herd, STEADY: _steady, CHAIN: _chain, SINGLE: _single}
