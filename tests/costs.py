"""What the tests of each file cost: a file that takes long is told at the end of a run."""

import resource
import sys
from collections import defaultdict
from collections.abc import Generator

import pytest

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
