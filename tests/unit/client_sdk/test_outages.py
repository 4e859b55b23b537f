"""What is logged while the scheduler is away (SPEC section 16)."""

import pytest

from client_sdk.errors import Unreachable
from client_sdk.outages import PROGRESS, RENEWALS, OutageLog
from client_sdk.target import Execution
from client_sdk.target.execution import AttemptReport

AWAY = Unreachable("no service answers")
FIRST = "progress of import could not be reported: no service answers"


class Line:
    """A reporter whose scheduler may be away."""

    def __init__(self) -> None:
        self.is_down = True
        self.reports: list[AttemptReport] = []

    async def report(self, report: AttemptReport) -> None:
        """Raises Unreachable while the scheduler is away."""
        if self.is_down:
            raise AWAY
        self.reports.append(report)


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Level and text of what was logged."""
    return [(one.levelname, one.getMessage()) for one in caplog.records]


async def test_an_outage_is_a_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """Of all executions together: the first failure, then how many there were, then the end."""
    caplog.set_level("INFO", "client_sdk")
    clock, line = [0.0], Line()
    outages = OutageLog(clock=lambda: clock[0])
    works = [Execution(job_id="import", reporter=line, outages=outages) for _ in range(2)]
    for second in range(130):
        clock[0] = second
        for work in works:
            await work.report(progress=f"{second}/200")
    line.is_down = False
    await works[0].report(progress="130/200")
    await works[0].report(progress="131/200")
    assert told(caplog) == [
        ("WARNING", FIRST),
        ("WARNING", f"{FIRST} (120 more in 60 s)"),
        ("WARNING", f"{FIRST} (120 more in 60 s)"),
        ("INFO", "progress is reported again, after 260 failures in 129 s"),
    ]


def test_each_kind_has_an_outage_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    """Renewals may fail while progress is reported; what did not fail has not returned."""
    caplog.set_level("INFO", "client_sdk")
    outages = OutageLog(clock=lambda: 0.0)
    outages.failed(RENEWALS, "nightly-1", AWAY)
    outages.succeeded(PROGRESS)
    outages.failed(PROGRESS, "import", AWAY)
    outages.succeeded(RENEWALS)
    assert told(caplog) == [
        ("WARNING", "the lease of nightly-1 could not be renewed yet: no service answers"),
        ("WARNING", FIRST),
        ("INFO", "leases are renewed again, after 1 failure in 0 s"),
    ]
