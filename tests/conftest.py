"""What every test shares: the long sweeps' switch, the conformance data, and what a skip means under CI."""

import gc
import inspect
import os
import re
import resource
import signal
import sys
import zlib
from collections import defaultdict
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import conformance_data

DEAR_SECONDS = 10.0
"""Seconds of CPU of one file, and of the processes that it started and that have ended."""
CPU = "cpu"


class Costs:
    """A plugin of pytest: each report has the CPU of its phase, also from another process of the run.

    After the last test of a folder its servers end, which many files have shared: their CPU is no file's.
    """

    def __init__(self) -> None:
        self._spent = 0.0
        self._is_last = False
        self._by_file: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Notes whether this is the last test of its folder."""
        self._is_last = nextitem is None or nextitem.path.parent != item.path.parent

    def pytest_runtest_logstart(self) -> None:
        """What was spent before, as for collecting, is no test's."""
        self._spent = spent_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Notes what the phase took."""
        report = yield
        before, self._spent = self._spent, spent_seconds()
        if not (self._is_last and report.when == "teardown"):
            report.user_properties.append((CPU, self._spent - before))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds it to that of its file."""
        file, _, _ = report.nodeid.partition("::")
        spent = (value for name, value in report.user_properties if name == CPU)
        self._by_file[file] += sum(value for value in spent if isinstance(value, float))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Names the files that took too much, and what to do."""
        dear = [(spent, file) for file, spent in self._by_file.items() if spent > DEAR_SECONDS]
        if dear:
            terminalreporter.section(f"files over {DEAR_SECONDS:g} s of CPU: make them cheaper, or `long`")
            for spent, file in sorted(dear, reverse=True):
                terminalreporter.write_line(f"{spent:6.1f} s  {file}")


def spent_seconds() -> float:
    """The CPU of this process, of those that it has waited for, and of those that were forked for it."""
    both = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    forked = sys.modules.get("tests.forked")  # it loads the whole service, for tests that need it
    spent = forked.spent_seconds() if forked else 0.0
    return spent + sum(one.ru_utime + one.ru_stime for one in both)


# Its servers are for all tests of a process: where another file imported them, it would have some of its own.
pytest_plugins = ("tests.unit.persistence.servers",)
UNIT = Path(__file__).parent / "unit"
DIALECTS = UNIT / "persistence/sql"
SERVER = re.compile(r"(?<=[\[, -])(postgres|mariadb)\w*(?=[],-])")
"""The name of a database server among the parameters of a test."""
# So many new objects before a look for garbage: at Python's 700 that takes an eighth of a run.
OBJECTS = 7_000
# Of its limit, which counts from before its fixtures.
NEARLY = 0.9


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--long` runs the long sweeps too."""
    parser.addoption("--long", action="store_true", help="run the long sweeps too")


def pytest_configure(config: pytest.Config) -> None:
    """Generated cases are few, and the same in every run, so that a red one is red again; `--long`: many.

    None fails because it took long: machines are busy, and pytest has its own limit.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # So it is in the background of a script, and in all programs started there: none would end by Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("same", patient, derandomize=True, max_examples=25)
    settings.register_profile("new", patient, print_blob=True, max_examples=400)
    settings.load_profile("new" if config.getoption("--long") else "same")
    config.pluginmanager.register(Costs(), "costs")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is loaded for all tests is no garbage: not to look through it saves a third of the collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(OBJECTS)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> None:
    """Refuses fixtures that would keep their event loop, of whatever kind, for the tests of other folders."""
    function = inspect.unwrap(fixturedef.func)
    kept = fixturedef.scope in ("session", "package")
    if kept and (inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)):
        pytest.fail(f"{fixturedef.argname} is async: its scope is at most `module`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves the long sweeps out unless they are asked for; unit tests come last.

    Those are many short files: workers that run them end together, and not one with a long file alone.
    """
    items.sort(key=lambda item: UNIT in item.path.parents)
    if config.getoption("--long"):
        return
    _choose_servers(items)
    chosen = [item for item in items if "long" not in item.keywords]
    config.hook.pytest_deselected(items=[item for item in items if "long" in item.keywords])
    items[:] = chosen


def _choose_servers(items: list[pytest.Item]) -> None:
    """Of a test that runs on each database server all but one are long: which one follows from its name.

    What speaks SQL to them in its own words, DIALECTS, is tried on each.
    """
    alike: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        name, found = SERVER.subn("", item.nodeid)
        if found and "long" not in item.keywords and DIALECTS not in item.path.parents:
            alike[name].append(item)
    for name, found in alike.items():
        del found[zlib.crc32(name.encode()) % len(found)]
        for item in found:
            item.add_marker("long")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Under CI a skip is a failure, but for programs of no package index and data of no public clone.

    A test that ran into its limit of time has failed, whatever it made of the exception that told it so.
    """
    report = yield
    limit = _limit_of(item)
    if report.passed and limit and call.duration >= NEARLY * limit:
        report.outcome = "failed"
        report.longrepr = f"it took {call.duration:.0f} s, its limit of {limit:g} s, and went on"
    may_miss = "elsewhere" in item.keywords or conformance_data.MISSING in str(report.longrepr)
    if report.skipped and os.environ.get("CI") and not may_miss and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped under CI, where nothing may be missing: {report.longrepr}"
    return report


def _limit_of(item: pytest.Item) -> float:
    """The seconds that a test may take; 0: as many as it likes."""
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0] if marker else item.config.getini("timeout") or 0)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Asyncio, for all tests and for fixtures of any scope; a folder or module may say otherwise."""
    return "asyncio"


@pytest.fixture(scope="session")
def conformance() -> Callable[[str], list[conformance_data.Row]]:
    """Reads a file of the conformance data; skips where a public clone has none."""
    return lambda name: conformance_data.rows(name.removesuffix(".jsonl"))
