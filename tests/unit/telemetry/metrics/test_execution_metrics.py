"""What the records of turns say is counted once, by bounded labels."""

from scheduler_service.domain.execution import DeliveryState, ExecutionState, FailureType, FiringOutcome
from scheduler_service.domain.records import AttemptEnded, DeliveryRecord, DeliveryTry, FiringRecord
from scheduler_service.ports.history import Batch
from scheduler_service.telemetry.metrics import metric_list
from scheduler_service.telemetry.metrics.execution_metrics import ExecutionMetrics
from scheduler_service.telemetry.metrics.metric_list import Sample
from tests.rows import each_row
from tests.unit.telemetry.metrics.batches import PLANNED, batch, buckets, execution, fired, value


def seen(*batches: Batch, jobs: tuple[str, ...] = ()) -> list[Sample]:
    """The figures after these turns."""
    metrics = ExecutionMetrics(jobs=jobs)
    for one in batches:
        metrics.count(one)
    return list(metrics.samples())


def test_a_success_is_two_turns_and_one_of_each() -> None:
    """The second turn in the same millisecond is no second start."""
    begun = batch(fired(), execution(started_at=PLANNED + 3), at=PLANNED + 3)
    ended = batch(
        execution(ExecutionState.SUCCEEDED, started_at=PLANNED + 3, ended_at=PLANNED + 3, attempt_count=1),
        at=PLANNED + 3,
        sequence=2,
    )
    found = seen(begun, ended)
    assert value(found, metric_list.TURNS) == 2
    assert value(found, metric_list.ATTEMPTS) == 1
    assert value(found, metric_list.FIRINGS, "fired") == 1
    assert value(found, metric_list.EXECUTIONS, "succeeded", "none") == 1
    assert buckets(found, metric_list.FIRING_LATENESS) == {0.005: 1}
    assert value(found, metric_list.FIRING_LATENESS) == 0.003
    assert buckets(found, metric_list.EXECUTION_DURATION) == {0.005: 1}
    # An execution that began before and is only changed now is not counted again
    running = execution(execute_number=7, started_at=PLANNED - 500)
    both = (fired(8), fired(9), running)
    starts = [execution(execute_number=number, started_at=PLANNED + 40) for number in (8, 9)]
    found = seen(batch(*both, *starts))
    assert buckets(found, metric_list.FIRING_LATENESS) == {0.05: 2}
    # It was not planned, so its turn has no firing
    found = seen(batch(execution(started_at=PLANNED + 40)))
    assert buckets(found, metric_list.FIRING_LATENESS) == {}
    # It is none
    found = seen(batch(fired(), execution(started_at=PLANNED - 50)))
    assert buckets(found, metric_list.FIRING_LATENESS) == {0.001: 1}
    # As one that is skipped
    found = seen(batch(execution(ExecutionState.SKIPPED, ended_at=PLANNED)))
    assert value(found, metric_list.EXECUTIONS, "skipped", "none") == 1
    assert buckets(found, metric_list.EXECUTION_DURATION) == {}


@each_row(("ms", "bound"), [(0, 0.001), (1_023, 2.5), (1_024, 2.5), (700_000, float("inf"))])
def test_short_and_long_times_are_in_their_buckets(ms: int, bound: float) -> None:
    """They are counted in two ways, and shown in one."""
    found = seen(batch(fired(), execution(started_at=PLANNED + ms)))
    assert buckets(found, metric_list.FIRING_LATENESS) == {bound: 1}
    assert value(found, metric_list.FIRING_LATENESS) == ms / 1_000


def test_failures_have_their_type_and_never_their_text() -> None:
    """Of executions and of attempts."""
    failed = AttemptEnded(1, 1, PLANNED, error="said by the target", failure_type=FailureType.BUSINESS)
    ended = execution(
        ExecutionState.TERMINATED,
        started_at=PLANNED,
        ended_at=PLANNED + 10,
        error="said by the target",
        failure_type=FailureType.BUSINESS,
        attempt_count=3,
    )
    found = seen(batch(failed, ended))
    assert value(found, metric_list.ATTEMPT_FAILURES, "business") == 1
    assert value(found, metric_list.EXECUTIONS, "terminated", "business") == 1
    assert value(found, metric_list.ATTEMPTS) == 3
    assert not [one for one in found if any("said" in label for label in one.labels)]


def test_missed_firings_are_counted_by_their_number() -> None:
    """A run of them has one record; one whose count follows later counts then."""
    late = fired(1, FiringOutcome.LATE)
    run = FiringRecord(PLANNED, FiringOutcome.SKIPPED, until=PLANNED + 9, count=5)
    unknown = FiringRecord(PLANNED, FiringOutcome.SKIPPED, count=None)
    found = seen(batch(late, run, unknown, execution(started_at=PLANNED + 2_000)))
    assert value(found, metric_list.FIRINGS, "late") == 1
    assert value(found, metric_list.FIRINGS, "skipped") == 5
    assert buckets(found, metric_list.FIRING_LATENESS) == {2.5: 1}


@each_row(
    ("state", "tries", "outcome"),
    [
        (DeliveryState.PENDING, 0, None),
        (DeliveryState.PENDING, 1, "retried"),
        (DeliveryState.DELIVERED, 1, "delivered"),
        (DeliveryState.OUTBOX, 4, "outbox"),
        (DeliveryState.FAILED, 4, "failed"),
    ],
)
def test_deliveries_are_counted_by_what_followed(
    state: DeliveryState, tries: int, outcome: str | None
) -> None:
    """A new one is not counted; none of them is a turn."""
    record = DeliveryRecord("d", 1, 1, "200", "http://x", state, tries=(DeliveryTry(1),) * tries)
    found = seen(batch(record, sequence=-9))
    counted = {one.labels[0]: one.value for one in found if one.family == metric_list.DELIVERIES.name}
    assert {name: count for name, count in counted.items() if count} == ({outcome: 1} if outcome else {})
    assert set(counted) == {"retried", "delivered", "failed", "outbox", "superseded", "dismissed"}
    assert value(found, metric_list.TURNS) == 0


def test_named_jobs_have_figures_of_their_own() -> None:
    """Others have none; what has not happened is not shown."""
    ended = execution(ExecutionState.SUCCEEDED, started_at=PLANNED, ended_at=PLANNED + 10)
    found = seen(
        batch(fired(), execution(started_at=PLANNED + 2)),
        batch(ended),
        batch(ended, job_id="other"),
        jobs=("one", "two"),
    )
    assert value(found, metric_list.JOB_EXECUTIONS, "one", "succeeded") == 1
    assert value(found, metric_list.JOB_EXECUTIONS, "other", "succeeded") is None
    assert buckets(found, metric_list.JOB_LATENESS, "one") == {0.002: 1}
    assert value(found, metric_list.JOB_LAST_SUCCESS, "one") == (PLANNED + 10) / 1_000
    assert value(found, metric_list.JOB_LAST_SUCCESS, "two") is None
