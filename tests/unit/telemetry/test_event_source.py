"""Occurrences: made of records and of log lines, at no cost while nobody takes them."""

from typing import Any

from scheduler_service.domain.execution import (
    DeliveryState,
    ExecutionState,
    FailureType,
    FiringOutcome,
    TriggeredBy,
)
from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.domain.records import (
    AttemptEnded,
    DeliveryRecord,
    ExecutionRecord,
    FiringRecord,
    Record,
)
from scheduler_service.ports.history import Batch
from scheduler_service.telemetry.event_source import MEANINGS, OccurrenceLog, Occurrences, occurrences_of
from scheduler_service.telemetry.log_events import VOCABULARY
from tests.rows import each_row

NOW = 10_000


def _batch(*records: Record) -> Batch:
    return Batch(uid="u", job_id="one", tenant="default", sequence=3, at=NOW, records=records)


def _execution(state: ExecutionState, *, started_at: int | None = NOW) -> ExecutionRecord:
    return ExecutionRecord(
        execute_number=7,
        revision=1,
        state=state,
        triggered_by=TriggeredBy.TIMER,
        planned_at=NOW - 40,
        created_at=NOW,
        started_at=started_at,
        error="404" if state is ExecutionState.TERMINATED else None,
        failure_type=FailureType.HTTP if state is ExecutionState.TERMINATED else None,
        attempt_count=2,
    )


@each_row(
    ("record", "kind"),
    [
        (_execution(ExecutionState.PROCESSING), OccurrenceKind.STARTED),
        (_execution(ExecutionState.PROCESSING, started_at=NOW + 3), OccurrenceKind.STARTED),
        (_execution(ExecutionState.SUCCEEDED), OccurrenceKind.FINAL_SUCCEED),
        (_execution(ExecutionState.TERMINATED), OccurrenceKind.FINAL_FAILED),
        (_execution(ExecutionState.CANCELLED), OccurrenceKind.FINAL_FAILED),
        (_execution(ExecutionState.SKIPPED, started_at=None), OccurrenceKind.SKIPPED),
        (AttemptEnded(7, 1, NOW, error="500", retry_in=1_000), OccurrenceKind.ATTEMPT_FAILED),
        (FiringRecord(NOW - 500, FiringOutcome.SKIPPED, count=3), OccurrenceKind.MISFIRED),
        (FiringRecord(NOW - 500, FiringOutcome.LATE), OccurrenceKind.MISFIRED),
        (
            DeliveryRecord("d", 7, 1, "finalFailed", "http://x/", DeliveryState.OUTBOX),
            OccurrenceKind.UNDELIVERABLE,
        ),
        (
            DeliveryRecord("d", 7, 1, "finalFailed", "http://x/", DeliveryState.DELIVERED),
            OccurrenceKind.DELIVERED,
        ),
    ],
)
def test_a_record_that_matters_is_one_occurrence(record: Record, kind: OccurrenceKind) -> None:
    """It names the job, and the execution where there is one."""
    (occurrence,) = occurrences_of(_batch(record))
    assert occurrence.kind is kind
    assert (occurrence.tenant, occurrence.job_id, occurrence.uid) == ("default", "one", "u")


@each_row(
    "record",
    [
        _execution(ExecutionState.PROCESSING, started_at=NOW - 900),
        _execution(ExecutionState.ENQUEUED, started_at=None),
        AttemptEnded(7, 1, NOW),
        AttemptEnded(7, 1, NOW, error="500"),
        FiringRecord(NOW, FiringOutcome.FIRED),
        DeliveryRecord("d", 7, 1, "succeed", "http://x/", DeliveryState.PENDING),
    ],
)
def test_what_only_goes_on_is_none(record: Record) -> None:
    """A later turn of an execution that runs, or the last failure, which its end tells, is not told twice."""
    assert list(occurrences_of(_batch(record))) == []


def test_an_end_tells_its_lateness_error_and_attempts() -> None:
    """The figures that alerts compare."""
    (end,) = occurrences_of(_batch(_execution(ExecutionState.TERMINATED)))
    assert (end.lateness_ms, end.error, end.failure_type, end.count) == (40, "404", FailureType.HTTP, 2)


@each_row(
    ("failure", "written", "said"),
    [
        (FailureType.CONNECT, "no answer of http://user:pw@host/a?key=1", "no answer of http://host"),
        (FailureType.TEMPLATE, "the value 'secret' is no number", "the value '…' is no number"),
        (FailureType.HTTP, "x" * 1_000, "x" * 199 + "…"),
        (FailureType.BUSINESS, "no stock\nat line 1", "no stock"),
        (FailureType.CHECK, "no stock", "no stock"),
        (FailureType.PARTIAL, "no stock", "no stock"),
    ],
)
def test_a_failure_tells_the_first_line_of_its_message(
    failure: FailureType, written: str, said: str | None
) -> None:
    """As alerts do that are made of the history, the target's own where it gave one (SPEC section 5)."""
    last = AttemptEnded(7, 2, NOW, error="x", failure_type=failure, message=written)
    (end,) = occurrences_of(_batch(last, _execution(ExecutionState.TERMINATED)))
    assert (end.kind, end.message) == (OccurrenceKind.FINAL_FAILED, said)
    retried = AttemptEnded(7, 1, NOW, error="x", failure_type=failure, message=written, retry_in=5)
    (attempt,) = occurrences_of(_batch(retried))
    assert (attempt.kind, attempt.message) == (OccurrenceKind.ATTEMPT_FAILED, said)


def test_takers_get_what_comes_after_they_asked_and_before_they_left() -> None:
    """Two takers do not disturb each other."""
    occurrences = Occurrences()
    first: list[Occurrence] = []
    second: list[Occurrence] = []
    occurrences.observe(_batch(_execution(ExecutionState.SUCCEEDED)))
    leave = occurrences.subscribe(first.append)
    occurrences.subscribe(second.append)
    assert occurrences.are_wanted
    occurrences.observe(_batch(_execution(ExecutionState.SUCCEEDED)))
    leave()
    occurrences.observe(_batch(_execution(ExecutionState.TERMINATED)))
    assert [one.kind for one in first] == [OccurrenceKind.FINAL_SUCCEED]
    assert [one.kind for one in second] == [OccurrenceKind.FINAL_SUCCEED, OccurrenceKind.FINAL_FAILED]
    # A second taker changes nothing, and who has left is told no more
    occurrences, told = Occurrences(), list[bool]()
    stop = occurrences.follow_interest(told.append)
    first = occurrences.subscribe(lambda one: None)
    second = occurrences.subscribe(lambda one: None)
    first()
    second()
    assert told == [False, True, False]
    stop()
    occurrences.subscribe(lambda one: None)
    assert told == [False, True, False]


LIMITED = {"tenant": "acme", "limit": "tenant_jobs", "value": 3_000, "times": 2}


@each_row(
    ("event", "keys", "kind", "subject"),
    [
        (
            "instance_lost",
            {"service": "billing", "instance": "b-1"},
            OccurrenceKind.INSTANCE_LOST,
            "billing/b-1",
        ),
        (
            "instance_returned",
            {"service": "billing", "instance": "b-1"},
            OccurrenceKind.INSTANCE_BACK,
            "billing/b-1",
        ),
        ("history_not_written", {"error": "disk full"}, OccurrenceKind.STORE_LOST, "history"),
        ("tenant_limited", LIMITED, OccurrenceKind.LIMIT_REACHED, "acme/tenant_jobs"),
        ("history_written_again", {}, OccurrenceKind.STORE_BACK, "history"),
        ("store_not_written", {"error": "no route"}, OccurrenceKind.STORE_LOST, None),
    ],
)
def test_a_line_is_an_occurrence(
    event: str, keys: dict[str, Any], kind: OccurrenceKind, subject: str | None
) -> None:
    """With the subject that its keys name, and its error."""
    found: list[Occurrence] = []
    lines: list[str] = []
    log = OccurrenceLog(log=lambda event, /, **_: lines.append(event), publish=found.append, wall=lambda: 7)
    log(event, **keys)
    log("listening", url="http://127.0.0.1:8000")
    assert lines == [event, "listening"]
    (one,) = found
    message = "limits.tenant_jobs allows 3,000" if keys is LIMITED else keys.get("error")
    assert (one.kind, one.at, one.subject, one.message) == (kind, 7, subject, message)
    assert one.tenant == (keys.get("tenant") or ("default" if "service" in keys else None))


def test_each_meaning_is_one_of_a_word_of_the_log() -> None:
    """A word that is renamed would mean nothing any more."""
    assert set(MEANINGS) <= set(VOCABULARY)


def test_each_kind_of_the_service_is_meant_by_some_line() -> None:
    """Else readers of events, and alerts, would wait for it in vain."""
    subjects = ("INSTANCE_", "NODE_", "WORKER_", "STORE_", "LIMIT_")
    of_the_service = {kind for kind in OccurrenceKind if kind.name.startswith(subjects)}
    assert of_the_service == {meaning.kind for meaning in MEANINGS.values()}
    assert len(of_the_service) > 8
