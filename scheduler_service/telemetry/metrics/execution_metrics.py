"""Counts executions, firings, attempts and deliveries by the records of turns."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from scheduler_service.domain.execution import DeliveryState, ExecutionState, FailureType, FiringOutcome
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.records import (
    AttemptEnded,
    AttemptStarted,
    DeliveryRecord,
    ExecutionRecord,
    FiringRecord,
    StepEnded,
)
from scheduler_service.ports.history import Batch
from scheduler_service.telemetry.metrics import metric_list
from scheduler_service.telemetry.metrics.metric_list import SHORT_MS, Milliseconds, Sample

_NO_ERROR = "none"
_UNKNOWN = "other"
_SUCCEEDED = ExecutionState.SUCCEEDED
_FIRED, _SKIPPED = FiringOutcome.FIRED, FiringOutcome.SKIPPED
RETRIED = "retried"
_GIVEN_UP = (DeliveryState.FAILED, DeliveryState.OUTBOX)
_DELIVERIES = (RETRIED, *(state.value for state in DeliveryState if state is not DeliveryState.PENDING))
_ENDS = (
    *((ExecutionState.TERMINATED.value, error.value) for error in FailureType),
    (ExecutionState.CANCELLED.value, _NO_ERROR),
    (ExecutionState.SKIPPED.value, _NO_ERROR),
)


class JobFigures:
    """The figures of one job that `metrics.jobs` names."""

    def __init__(self) -> None:
        self.lateness = Milliseconds(metric_list.JOB_LATENESS)
        self.outcomes: Counter[str] = Counter()
        self.succeeded_at: int | None = None

    def end(self, state: ExecutionState, ended: int) -> None:
        """An execution has ended."""
        self.outcomes[state.value] += 1
        if state is _SUCCEEDED:
            self.succeeded_at = ended

    def samples(self, job_id: str) -> Iterator[Sample]:
        """All of them; nothing of what has not happened yet."""
        yield self.lateness.sample(job_id)
        for outcome, count in self.outcomes.items():
            yield Sample(metric_list.JOB_EXECUTIONS.name, (job_id, outcome), count)
        if self.succeeded_at is not None:
            yield Sample(metric_list.JOB_LAST_SUCCESS.name, (job_id,), self.succeeded_at / SECOND)


class ExecutionMetrics:
    """Sees the records of this process's turns, and says in which of them something went wrong.

    `jobs` are the keys of jobs that are counted one by one as well. Labels have types of failures, never
    texts. What a crash shows once more is counted once more.
    """

    def __init__(self, *, jobs: Sequence[str] = ()) -> None:
        self._turns = 0
        self._attempts = 0
        self._fired = 0
        self._succeeded = 0
        self._firings: Counter[str] = Counter()
        # Those that are known are there from the start: else their first increase would not be seen.
        self._ends = Counter(dict.fromkeys(_ENDS, 0))
        self._failures = Counter({error.value: 0 for error in FailureType})
        self._deliveries = Counter(dict.fromkeys(_DELIVERIES, 0))
        self._lateness = Milliseconds(metric_list.FIRING_LATENESS)
        self._short_lateness = self._lateness.short
        self._durations = Milliseconds(metric_list.EXECUTION_DURATION)
        self._short_durations = self._durations.short
        self._jobs = {job_id: JobFigures() for job_id in jobs}

    def count(self, batch: Batch) -> bool:
        """Counts the records of a turn (`telemetry.turn_observers.RecordCount`)."""
        # Runs in every turn: types are compared, and what happens most is counted without a call.
        began = 0
        further: tuple[int, ...] = ()
        has_trouble = False
        record: Any  # by its type
        for record in batch.records:
            kind = type(record)
            if kind is StepEnded or kind is AttemptStarted:
                continue  # most of them, and not counted
            if kind is ExecutionRecord:
                if began and (record.execute_number == began or record.execute_number in further):
                    self._begin(batch, record)
                if record.ended_at is not None:
                    if record.state is _SUCCEEDED:
                        self._succeeded += 1
                    else:
                        self._end_badly(record)
                        has_trouble = True
                    self._end(batch, record, record.ended_at)
            elif kind is FiringRecord:
                if record.outcome is _FIRED:
                    self._fired += 1
                else:
                    self._firings[record.outcome.value] += record.count or 0
                    has_trouble = True
                if record.execute_number is not None and record.outcome is not _SKIPPED:
                    if began:
                        further = (*further, record.execute_number)
                    else:
                        began = record.execute_number
            elif kind is AttemptEnded:
                if record.error is not None:
                    self._failures[record.failure_type.value if record.failure_type else _UNKNOWN] += 1
                    has_trouble = True
            elif kind is DeliveryRecord:
                has_trouble = self._deliver(record) or has_trouble
        if batch.sequence > 0:  # below 0 are those of deliveries, which are no turns
            self._turns += 1
        return has_trouble

    def samples(self) -> Iterator[Sample]:
        """All figures so far."""
        yield Sample(metric_list.TURNS.name, (), self._turns)
        yield Sample(metric_list.ATTEMPTS.name, (), self._attempts)
        yield self._lateness.sample()
        yield self._durations.sample()
        yield Sample(metric_list.FIRINGS.name, (_FIRED.value,), self._fired)
        for outcome in (FiringOutcome.LATE, _SKIPPED):
            yield Sample(metric_list.FIRINGS.name, (outcome.value,), self._firings[outcome.value])
        yield Sample(metric_list.EXECUTIONS.name, (_SUCCEEDED.value, _NO_ERROR), self._succeeded)
        for labels, count in self._ends.items():
            yield Sample(metric_list.EXECUTIONS.name, labels, count)
        for error, count in self._failures.items():
            yield Sample(metric_list.ATTEMPT_FAILURES.name, (error,), count)
        for outcome_, count in self._deliveries.items():
            yield Sample(metric_list.DELIVERIES.name, (outcome_,), count)
        for job_id, figures in self._jobs.items():
            yield from figures.samples(job_id)

    def _begin(self, batch: Batch, record: ExecutionRecord) -> None:
        late = (record.started_at or batch.at) - record.planned_at
        if 0 <= late < SHORT_MS:
            self._short_lateness[late] += 1
        else:
            self._lateness.observe(late)
        if self._jobs and batch.job_id in self._jobs:
            self._jobs[batch.job_id].lateness.observe(late)

    def _end(self, batch: Batch, record: ExecutionRecord, ended: int) -> None:
        self._attempts += record.attempt_count
        if record.started_at is not None:
            took = ended - record.started_at
            if 0 <= took < SHORT_MS:
                self._short_durations[took] += 1
            else:
                self._durations.observe(took)
        if self._jobs and batch.job_id in self._jobs:
            self._jobs[batch.job_id].end(record.state, ended)

    def _end_badly(self, record: ExecutionRecord) -> None:
        error = record.failure_type
        self._ends[record.state.value, _NO_ERROR if error is None else error.value] += 1

    def _deliver(self, record: DeliveryRecord) -> bool:
        """Whether it was given up."""
        if record.state is not DeliveryState.PENDING:
            self._deliveries[record.state.value] += 1
        elif record.tries:
            self._deliveries[RETRIED] += 1
        return record.state in _GIVEN_UP
