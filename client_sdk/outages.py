"""Logs calls that fail while the scheduler is away: once, then once a minute, and when it is back."""

import logging
import time
from collections.abc import Callable
from typing import NamedTuple

LOG = logging.getLogger("client_sdk")
SUMMARY_SECONDS = 60.0


class RepeatedCalls(NamedTuple):
    """Calls that are repeated, or replaced by the next one: how their failure and their return are worded."""

    failure: str
    returned: str


PROGRESS = RepeatedCalls("progress of %s could not be reported", "progress is reported again")
RENEWALS = RepeatedCalls("the lease of %s could not be renewed yet", "leases are renewed again")
CLAIMS = RepeatedCalls("nothing can be claimed from %s", "work is claimed again")


class _Outage:
    """Calls of one kind that fail since `since`; `unsaid` of them are in no line of the log yet."""

    def __init__(self, now: float) -> None:
        self.since = self.said_at = now
        self.failures = 1
        self.unsaid = 0


class OutageLog:
    """The log of one service or worker, for all its executions. `clock` is in seconds.

    The first failure of a kind of calls is a WARNING; further ones are counted in another line after each
    minute; the first success afterwards is logged as INFO, with the number of all failures.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open: dict[RepeatedCalls, _Outage] = {}

    def failed(self, calls: RepeatedCalls, subject: str, error: Exception) -> None:
        """One call about `subject` has failed."""
        now = self._clock()
        outage = self._open.get(calls)
        if outage is None:
            self._open[calls] = _Outage(now)
            LOG.warning(f"{calls.failure}: %s", subject, error)
            return
        outage.failures += 1
        outage.unsaid += 1
        if now - outage.said_at >= SUMMARY_SECONDS:
            length = now - outage.said_at
            LOG.warning(f"{calls.failure}: %s (%d more in %.0f s)", subject, error, outage.unsaid, length)
            outage.said_at, outage.unsaid = now, 0

    def succeeded(self, calls: RepeatedCalls) -> None:
        """One call was answered."""
        outage = self._open.pop(calls, None)
        if outage is not None:
            failures = "1 failure" if outage.failures == 1 else f"{outage.failures} failures"
            LOG.info("%s, after %s in %.0f s", calls.returned, failures, self._clock() - outage.since)
