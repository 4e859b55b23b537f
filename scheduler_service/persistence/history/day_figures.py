"""What is counted of the executions of some days and jobs, and its wire form."""

from typing import Any

import msgspec

from scheduler_service.domain.execution import ExecutionState, FailureType
from scheduler_service.persistence.history.buckets import NONE, middle_of, percentile
from scheduler_service.persistence.history.queries import Wire

OUTCOMES = (
    ExecutionState.SUCCEEDED,
    ExecutionState.TERMINATED,
    ExecutionState.CANCELLED,
    ExecutionState.SKIPPED,
)
PERCENTILES = (50, 90, 95, 99)


class Figures(msgspec.Struct, omit_defaults=True):
    """Counts by outcome, failure type and bucket, and sums in ms; figures of other jobs and days add up."""

    states: dict[str, int] = {}
    failures: dict[str, int] = {}
    lateness: dict[int, int] = {}
    duration: dict[int, int] = {}
    attempts: int = 0
    lateness_ms: int = 0
    duration_ms: int = 0

    @property
    def count(self) -> int:
        """How many executions."""
        return sum(self.states.values())

    @property
    def started(self) -> int:
        """How many of them have a duration."""
        return sum(self.duration.values())

    def add_cell(self, cell: Any) -> None:
        """Adds a row of `statistic_cells`."""
        _add(self.states, cell.state, cell.executions)
        if cell.failure_type:
            _add(self.failures, cell.failure_type, cell.executions)
        if cell.lateness != NONE:
            _add(self.lateness, cell.lateness, cell.executions)
        if cell.duration != NONE:
            _add(self.duration, cell.duration, cell.executions)
        self.attempts += cell.attempts
        self.lateness_ms += cell.lateness_ms
        self.duration_ms += cell.duration_ms

    def add(self, other: "Figures") -> None:
        """Adds the figures of other executions."""
        for own, others in (
            (self.states, other.states),
            (self.failures, other.failures),
            (self.lateness, other.lateness),
            (self.duration, other.duration),
        ):
            for name, number in others.items():
                _add(own, name, number)
        self.attempts += other.attempts
        self.lateness_ms += other.lateness_ms
        self.duration_ms += other.duration_ms

    def wire(self) -> Wire:
        """The members that a day and a sum have."""
        return {
            "executions": self.count,
            "byOutcome": {str(state): self.states.get(str(state), 0) for state in OUTCOMES},
            "byFailureType": {
                str(kind): self.failures[str(kind)] for kind in FailureType if str(kind) in self.failures
            },
            "attempts": self.attempts,
            "lateness": _spread(self.lateness, self.lateness_ms),
            "duration": _spread(self.duration, self.duration_ms),
        }


encode_figures = msgspec.msgpack.Encoder().encode
decode_figures = msgspec.msgpack.Decoder(Figures).decode


def _add(counts: dict[Any, int], name: Any, number: int) -> None:
    counts[name] = counts.get(name, 0) + number


def _spread(counts: dict[int, int], total_ms: int) -> Wire:
    """Percentiles, the largest and the mean, in ms; None where there is nothing to judge."""
    found: Wire = {f"p{percent}": percentile(counts, percent) for percent in PERCENTILES}
    number = sum(counts.values())
    found["max"] = middle_of(max(counts)) if counts else None
    found["mean"] = round(total_ms / number) if number else None
    return found
