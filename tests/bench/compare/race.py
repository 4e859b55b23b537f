"""Runs: a scheduler, its store and the target, each where it belongs, for one kind of work."""

import json
import queue
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx

from tests.bench.compare.legs import Cache, Leg
from tests.bench.compare.processes import Cores, busy_seconds, cpu_seconds, started
from tests.bench.compare.results import SINGLE, Figures, Run, Work, find_figures, parse_event
from tests.bench.peers.task import Task, name
from tests.bench.stage import TARGET, BareTarget

GETTING_READY = 40.0  # s beyond the moment; a program that takes longer is ended
READY_BEFORE = 0.2  # s that must be left before the moment
QUIET = 0.02  # s of CPU in a quarter of a second: what is left is polling
SETTLING = 6.0


class LateError(Exception):
    """The moment came before all jobs were there."""


class Heat:
    """Starts store, target and program, waits for the arrivals, and reads what all of it took."""

    def __init__(self, *, leg: Leg, work: Work, cores: Cores, cache: Cache) -> None:
        self._leg = leg
        self._work = work
        self._cores = cores
        self._cache = cache
        self.needed = 0.0

    def run(self, lead: float) -> Run:
        """Jobs are due `lead` seconds from now. Raises LateError, or RuntimeError where the program fails."""
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="compare-")))
            target = _start_target(stack, self._cores)
            began = time.time()
            task, servers = self._prepare(stack, folder, target.base, lead)
            program = _Program(
                stack, self._command(task), self._leg.environment(self._cache), self._cores, folder
            )
            ready = program.await_event("ready", lead + GETTING_READY)
            self.needed = time.time() - began
            if self._work.kind != SINGLE and time.time() > task.moment / 1000 - READY_BEFORE:
                raise LateError
            created = ready["created"] / ready["seconds"]
            if self._work.kind == SINGLE:
                return Run(self._leg.key, self._work.kind, created=created)
            return self._watch(task, target, program, [program.pid, *servers], created)

    def _prepare(self, stack: ExitStack, folder: Path, url: str, lead: float) -> tuple[Task, list[int]]:
        place = folder / "store"
        place.mkdir()
        store = stack.enter_context(self._leg.store(place, self._cores))
        task = Task(
            work=self._work.kind,
            count=self._work.count,
            rate=self._work.rate,
            moment=(int(time.time() + lead) + 1) * 1000,
            steps=self._work.steps,
            target=url,
            store=store.address + self._leg.suffix,
            client_cores=self._cores.others,
        )
        return task, [] if store.server is None else [store.server]

    def _command(self, task: Task) -> list[str]:
        return [*self._leg.command(self._cache), json.dumps(asdict(task))]

    def _watch(
        self, task: Task, target: BareTarget, program: "_Program", pids: list[int], created: float
    ) -> Run:
        own = (*pids, target.pid)
        before, busy, began = _used(pids), busy_seconds() - _used(own), time.time()
        deadline = task.moment / 1000 + self._work.seconds
        while target.count() < task.count * task.steps and time.time() < deadline:
            program.check()
            time.sleep(0.25)
        _settle(pids)
        used = _used(pids) - before
        foreign = (busy_seconds() - _used(own) - busy) / (time.time() - began)
        recorded = program.end()["recorded"] if self._leg.reports else None
        figures = self._figures(task, target)
        return Run(
            leg=self._leg.key,
            kind=self._work.kind,
            created=created,
            figures=figures,
            cpu_us=used / figures.completed * 1e6 if figures.completed else None,
            recorded=recorded,
            foreign=max(0.0, foreign),
        )

    def _figures(self, task: Task, target: BareTarget) -> Figures:
        planned = {name(n): float(task.planned(n)) for n in range(task.count)}
        return find_figures(target.arrivals(), planned, task.steps)


def _start_target(stack: ExitStack, cores: Cores) -> BareTarget:
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return BareTarget(stack.enter_context(started([sys.executable, *TARGET], cores.others, **pipes)))


class _Program:
    """The scheduler's program, and the events that it tells."""

    def __init__(
        self, stack: ExitStack, command: list[str], environment: dict[str, str], cores: Cores, folder: Path
    ) -> None:
        self._errors = folder / "errors"
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        written = stack.enter_context(self._errors.open("w"))
        pipes: dict[str, Any] = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": written,
            "env": environment,
        }
        self._process = stack.enter_context(started(command, cores.scheduler, **pipes))
        self.pid = self._process.pid
        threading.Thread(target=self._listen, daemon=True).start()

    def await_event(self, event: str, seconds: float) -> dict[str, Any]:
        """The next event, which has to be this one."""
        try:
            found = self._events.get(timeout=seconds)
        except queue.Empty as error:
            raise RuntimeError(f"no {event!r} within {seconds} s; {self._tail()}") from error
        if found is None or found["event"] != event:
            raise RuntimeError(f"{found} instead of {event!r}; {self._tail()}")
        return found

    def check(self) -> None:
        """Raises RuntimeError where it has ended."""
        if self._process.poll() is not None:
            raise RuntimeError(f"it ended with {self._process.returncode}; {self._tail()}")

    def end(self) -> dict[str, Any]:
        """Asks it to end; what it reports."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self.await_event("end", 15)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if (found := parse_event(line)) is not None:
                self._events.put(found)
        self._events.put(None)

    def _tail(self) -> str:
        lines = self._errors.read_text(errors="replace").strip().splitlines()
        return f"it said: {lines[-1] if lines else 'nothing'}"


def _used(pids: list[int] | tuple[int, ...]) -> float:
    return sum(cpu_seconds(pid) for pid in pids)


def _settle(pids: list[int]) -> None:
    deadline, last = time.monotonic() + SETTLING, -1.0
    while time.monotonic() < deadline:
        used = _used(pids)
        if last >= 0 and used - last <= QUIET:
            return
        last = used
        time.sleep(0.25)


STARTUP = 3.0  # s until the slowest program works


class Race:
    """Runs legs one at a time, and learns how long each needs to get ready."""

    def __init__(self, *, cores: Cores, cache: Cache) -> None:
        self._cores = cores
        self._cache = cache
        self._leads: dict[tuple[str, str], float] = {}
        self._hopeless: set[tuple[str, str]] = set()

    def wants(self, leg: Leg, work: Work) -> bool:
        """Whether a leg takes part; not again where it has kept less than half of a rate."""
        return work.kind in leg.kinds and (leg.key, work.kind) not in self._hopeless

    def run(self, leg: Leg, work: Work) -> Run:
        """One run; again with more time, up to twice, where the jobs were not there at their moment."""
        place = (leg.key, work.kind)
        lead = self._leads.get(place, STARTUP + work.count / leg.creates)
        for _ in range(3):
            heat = Heat(leg=leg, work=work, cores=self._cores, cache=self._cache)
            try:
                found = heat.run(lead)
            except LateError:
                lead = 2 * lead
            except (OSError, RuntimeError, httpx.HTTPError, subprocess.SubprocessError) as error:
                return Run(leg.key, work.kind, problem=f"{type(error).__name__}: {error}")
            else:
                self._leads[place] = 1.3 * heat.needed + 1.5
                if work.rate and found.figures and (found.figures.rate or 0) < work.rate / 2:
                    self._hopeless.add(place)
                return found
        return Run(leg.key, work.kind, problem="its jobs were not there at their moment")
