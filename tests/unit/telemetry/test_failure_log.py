"""Each bad end is one line, with what a person needs and nothing of a body, header or path."""

import io
import itertools
import json
from collections import Counter
from typing import Any

import msgspec

from scheduler_service.domain.execution import (
    DeliveryState,
    ExecutionState,
    FailureType,
    FiringOutcome,
    JobState,
    TriggeredBy,
)
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.public_events import Occurrence
from scheduler_service.domain.records import (
    AttemptEnded,
    CheckEnded,
    DeliveryRecord,
    DeliveryTry,
    Exchange,
    ExecutionRecord,
    FeedbackSeen,
    FiringRecord,
    Record,
    StepEnded,
)
from scheduler_service.engine.outbound_requests import trace_of
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.history import Batch
from scheduler_service.telemetry.event_source import Occurrences
from scheduler_service.telemetry.failure_log import FailureLog, JobLife, changes_of
from scheduler_service.telemetry.log_events import VOCABULARY
from scheduler_service.telemetry.log_summaries import FULL
from scheduler_service.telemetry.logs import EventLog
from scheduler_service.telemetry.metrics.execution_metrics import ExecutionMetrics
from tests.rows import each_row

NOW = 1_767_225_600_000
SECRET = "s3cret"
URL = f"https://me:{SECRET}@pay.test:8443/{SECRET}/x?token={SECRET}#{SECRET}"
HIDING = Exchange(
    "POST", URL, (("authorization", SECRET),), SECRET.encode(), status=500, response_body=SECRET.encode()
)


def told(*records: Record, tries: int = 4) -> list[tuple[str, dict[str, Any]]]:
    """The lines of a turn with these records."""
    lines: list[tuple[str, dict[str, Any]]] = []
    watch = FailureLog(log=lambda event, /, **keys: lines.append((event, keys)), tries=tries)
    watch(Batch(uid="u", job_id="one", tenant="default", sequence=3, at=NOW, records=records))
    return lines


def ended(state: ExecutionState, **members: Any) -> ExecutionRecord:
    """An execution that ended."""
    return ExecutionRecord(7, 1, state, TriggeredBy.TIMER, NOW - 40, NOW, NOW, NOW, **members)


def attempt(failure_type: FailureType, message: str, **members: Any) -> AttemptEnded:
    """A failed attempt."""
    return AttemptEnded(7, 9, NOW, error="500", failure_type=failure_type, message=message, **members)


def delivery(state: DeliveryState, tries: int) -> DeliveryRecord:
    """A delivery after so many tries."""
    past = (DeliveryTry(NOW, None, "connect"), DeliveryTry(NOW, 503))[-tries:] * tries
    return DeliveryRecord("d1", 7, 9, "finalFailed", URL, state, tries=past[-tries:] if tries else ())


def test_an_execution_that_fails_is_one_line() -> None:
    """With step, host, error and trace; what went well before is not in it."""
    [(event, keys)] = told(
        StepEnded(7, 9, 0, NOW, Exchange("GET", "http://other.test/a", status=200)),
        StepEnded(7, 9, 1, NOW, HIDING, error="500"),
        StepEnded(8, 9, 5, NOW, Exchange("GET", "http://stranger.test/a"), error="404"),
        attempt(FailureType.HTTP, "the target answered 500"),
        ended(
            ExecutionState.TERMINATED,
            error="500",
            failure_type=FailureType.HTTP,
            reason="no_policy",
            attempt_count=1,
        ),
    )
    assert event == "execution_failed"
    assert keys == {
        "jobId": "one",
        "executionId": "u-7",
        "attempts": 1,
        "error": "500",
        "failureType": "http",
        "reason": "no_policy",
        "step": 1,
        "target": "pay.test:8443",
        "message": "the target answered 500",
        "traceId": trace_of("u", 7),
    }
    assert SECRET not in json.dumps(keys)


@each_row(("reason", "attempts"), [("limit", 6), ("policy_spent", 2)])
def test_used_up_retries_have_a_word_of_their_own(reason: str, attempts: int) -> None:
    """Where there were any."""
    end = ended(ExecutionState.TERMINATED, reason=reason, attempt_count=attempts)
    assert [event for event, _ in told(end)] == ["retries_exhausted"]
    alone = ended(ExecutionState.TERMINATED, reason="limit", attempt_count=1)
    assert [event for event, _ in told(alone)] == ["execution_failed"]


@each_row(
    ("failure_type", "text", "seen"),
    [
        (FailureType.BUSINESS, SECRET, None),
        (FailureType.CHECK, SECRET, None),
        (FailureType.PARTIAL, f"1 of 2 parts failed; the first one: x, {SECRET}", None),
        (FailureType.TEMPLATE, f"step 1: the url '/{SECRET}' has no host", "step 1: the url '…' has no host"),
        (FailureType.CONNECT, f"{URL} refused\n{SECRET}", "https://pay.test:8443 refused"),
        (FailureType.LOST, "a" * 1_000, "a" * 199 + "…"),
    ],
)
def test_of_a_message_only_our_own_words_are_written(
    failure_type: FailureType, text: str, seen: str | None
) -> None:
    """Never what a target said in a body, nor what a template made, nor a path; and cut."""
    end = ended(ExecutionState.TERMINATED, error="500", failure_type=failure_type)
    [(_, keys)] = told(attempt(failure_type, text), end)
    assert keys.get("message") == seen
    assert SECRET not in json.dumps(keys)


def test_the_target_of_a_check_is_named() -> None:
    """Where the check failed, and no step."""
    end = ended(ExecutionState.TERMINATED, error="404", failure_type=FailureType.CHECK)
    [(_, keys)] = told(CheckEnded(7, 9, 1, NOW, HIDING, error="404"), end)
    assert keys["target"] == "pay.test:8443"
    assert "step" not in keys


def test_what_ends_well_or_goes_on_is_no_line() -> None:
    """Not even where a feedback was stale."""
    assert (
        told(
            StepEnded(7, 9, 0, NOW, HIDING),
            FeedbackSeen(7, 9, NOW, b"{}", stale=True),
            AttemptEnded(7, 9, NOW),
            ended(ExecutionState.SUCCEEDED),
            ended(ExecutionState.FAILED),
            FiringRecord(NOW, FiringOutcome.FIRED),
            delivery(DeliveryState.DELIVERED, 2),
            delivery(DeliveryState.PENDING, 1),
            delivery(DeliveryState.DISMISSED, 1),
        )
        == []
    )


def test_a_retry_is_a_line_for_those_who_search() -> None:
    """Of the level debug."""
    [(event, keys)] = told(attempt(FailureType.HTTP, "x", retry_in=2_000), ended(ExecutionState.FAILED))
    assert event == "attempt_failed"
    assert VOCABULARY[event].level == "debug"
    assert (keys["executionId"], keys["retryInMs"]) == ("u-7", 2_000)
    # At the level info: somebody asked for it
    assert told(ended(ExecutionState.CANCELLED, reason="overlap")) == [
        ("execution_cancelled", {"jobId": "one", "executionId": "u-7", "reason": "overlap"})
    ]
    # With the reason; of a firing that starts nothing its own record says so
    by_timer = ended(ExecutionState.SKIPPED, reason="queue_full")
    by_hand = ExecutionRecord(
        8, 1, ExecutionState.SKIPPED, TriggeredBy.MANUAL, NOW, None, NOW, NOW, reason="queue_full"
    )
    line = ("trigger_skipped", {"jobId": "one", "executionId": "u-8", "reason": "queue_full"})
    assert told(by_timer, by_hand) == [line]


def test_a_delivery_that_is_given_up_is_one_line() -> None:
    """Also one in the outbox, once: later tries of it are told no more."""
    [(event, keys)] = told(delivery(DeliveryState.FAILED, 4))
    assert event == "delivery_failed"
    assert keys == {
        "jobId": "one",
        "executionId": "u-7",
        "delivery": "d1",
        "notification": "finalFailed",
        "state": "failed",
        "tries": 4,
        "error": "503",
        "target": "pay.test:8443",
    }
    assert len(told(delivery(DeliveryState.OUTBOX, 4))) == 1
    assert told(delivery(DeliveryState.OUTBOX, 5)) == []


def test_missed_and_late_firings_are_lines() -> None:
    """A run of missed ones is one, when it is counted."""
    first, last = NOW - 60_000, NOW - 1_000
    skipped = FiringOutcome.SKIPPED
    assert told(FiringRecord(first, skipped, until=last, count=None, reason="misfire")) == []
    assert told(FiringRecord(first, skipped, until=last, count=60, reason="misfire")) == [
        (
            "firings_missed",
            {"jobId": "one", "plannedAt": rfc3339(first), "until": rfc3339(last), "count": 60},
        )
    ]
    assert told(FiringRecord(first, FiringOutcome.LATE, execute_number=7)) == [
        (
            "firing_delayed",
            {"jobId": "one", "plannedAt": rfc3339(first), "lateMs": 60_000, "executionId": "u-7"},
        )
    ]
    [(event, keys)] = told(FiringRecord(first, skipped, reason="overlap", execute_number=7))
    assert (event, keys["reason"]) == ("firing_skipped", "overlap")


def test_of_a_flood_each_is_written_or_counted() -> None:
    """Thousands at one moment: their number is told by kind."""
    stream = io.StringIO()
    log = EventLog(stream=stream, clock=lambda: 0.0)
    watch = FailureLog(log=log, tries=4)
    late = FiringRecord(NOW - 60_000, FiringOutcome.LATE, execute_number=7)
    records = (late, *[ended(ExecutionState.CANCELLED, reason=reason) for reason in ("paused", "asked")])
    for sequence in range(100):
        watch(Batch(uid="u", job_id="one", tenant="default", sequence=sequence, at=NOW, records=records))
    log.flush()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    written = Counter(
        (line["event"], line.get("reason")) for line in lines if line["event"] != "lines_omitted"
    )
    kinds = [("firing_delayed", None), ("execution_cancelled", "paused"), ("execution_cancelled", "asked")]
    assert written == dict.fromkeys(kinds, FULL)
    told = {(line["of"], line.get("reason")): line["more"] for line in lines if "of" in line}
    assert told == dict.fromkeys(kinds, 100 - FULL)


ENDS = (ExecutionState.SUCCEEDED, ExecutionState.TERMINATED, ExecutionState.CANCELLED, ExecutionState.SKIPPED)
EXECUTIONS = [
    ExecutionRecord(1, 1, state, by, NOW, NOW, ended_at=NOW if state in ENDS else None)
    for state, by in itertools.product(ExecutionState, TriggeredBy)
]
FIRINGS = [
    FiringRecord(NOW, outcome, reason=reason)
    for outcome, reason in itertools.product(FiringOutcome, (None, "misfire", "overlap"))
]
ATTEMPTS = [
    AttemptEnded(1, 1, NOW),
    AttemptEnded(1, 1, NOW, error="500", failure_type=FailureType.HTTP),
    AttemptEnded(1, 1, NOW, error="500", failure_type=FailureType.HTTP, retry_in=1_000),
]
DELIVERIES = [
    DeliveryRecord("d", 1, 1, "finalFailed", "http://a.test/", state, tries=(DeliveryTry(NOW, 503),) * tries)
    for state, tries in itertools.product(DeliveryState, (0, 1, 4))
]


def alone(record: Record) -> Batch:
    """The turn that this is all of."""
    return Batch(uid="u", job_id="one", tenant="default", sequence=3, at=NOW, records=(record,))


@each_row("record", [*EXECUTIONS, *FIRINGS, *ATTEMPTS, *DELIVERIES])
def test_what_has_a_line_is_counted_as_trouble(record: Record) -> None:
    """Every record for which there is a line is shown to whoever writes it."""
    assert ExecutionMetrics().count(alone(record)) or told(record) == []


@each_row(
    "record",
    [
        FiringRecord(NOW, FiringOutcome.FIRED, execute_number=1),
        ExecutionRecord(1, 1, ExecutionState.PROCESSING, TriggeredBy.TIMER, NOW, NOW, NOW),
        ExecutionRecord(1, 1, ExecutionState.SUCCEEDED, TriggeredBy.TIMER, NOW, NOW, NOW, NOW),
        AttemptEnded(1, 1, NOW),
        DeliveryRecord("d", 1, 1, "finalSucceed", "http://a.test/", DeliveryState.DELIVERED),
    ],
)
def test_what_goes_well_is_no_trouble(record: Record) -> None:
    """So nobody but the count looks at the turns of an execution that succeeds."""
    assert not ExecutionMetrics().count(alone(record))


BEGAN = 10_000
ENTRY = CatalogueEntry(
    job_id="one",
    uid="u",
    tenant="default",
    job_name="one",
    object_id=None,
    creator="me",
    kind="cron",
    state=JobState.ACTIVE,
    revision=1,
    labels={},
    parent_job=None,
    parent_execution=None,
    next_fire=None,
    execute_number=0,
    request_counts=0,
    missed=0,
    latest=b"{}",
    created_at=1,
    updated_at=1,
)


def _entry(**changes: object) -> CatalogueEntry:
    return msgspec.structs.replace(ENTRY, **changes)


PAUSED, FINISHED = _entry(state=JobState.PAUSED), _entry(state=JobState.FINISHED)
DESTROYED = _entry(state=JobState.DESTROYED)


@each_row(
    ("before", "after", "kinds"),
    [
        (None, ENTRY, ["jobCreated"]),
        (None, PAUSED, ["jobCreated"]),
        (DESTROYED, _entry(uid="v"), ["jobCreated"]),
        (ENTRY, _entry(revision=2), ["jobUpdated"]),
        (ENTRY, _entry(revision=2, state=JobState.PAUSED), ["jobUpdated", "jobPaused"]),
        (ENTRY, PAUSED, ["jobPaused"]),
        (PAUSED, ENTRY, ["jobResumed"]),
        (FINISHED, ENTRY, ["jobResumed"]),
        (FINISHED, _entry(revision=2), ["jobUpdated"]),
        (PAUSED, _entry(revision=2), ["jobUpdated", "jobResumed"]),
        (ENTRY, FINISHED, ["jobFinished"]),
        (ENTRY, DESTROYED, ["jobDestroyed"]),
        (DESTROYED, DESTROYED, []),
        (ENTRY, _entry(execute_number=1, next_fire=5), []),
    ],
)
def test_two_entries_say_what_happened(
    before: CatalogueEntry | None, after: CatalogueEntry, kinds: list[str]
) -> None:
    """In order; a turn that changed nothing of the job itself says nothing."""
    assert [kind.value for kind in changes_of(before, after)] == kinds


def test_it_names_the_job_its_state_and_its_revision() -> None:
    """While nobody takes occurrences none is made, not even the time is asked for."""
    occurrences, taken, asked = Occurrences(), list[Occurrence](), list[int]()

    def wall() -> int:
        asked.append(BEGAN)
        return BEGAN

    life = JobLife(occurrences=occurrences, wall=wall)
    life.observe(None, ENTRY)
    assert not asked
    occurrences.subscribe(taken.append)
    life.observe(ENTRY, PAUSED)
    (one,) = taken
    assert (one.at, one.tenant, one.job_id, one.uid, one.state, one.revision) == (
        BEGAN,
        "default",
        "one",
        "u",
        "paused",
        1,
    )
