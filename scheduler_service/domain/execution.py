"""Executions: their states and what may follow each, failures, ids and deliveries (SPEC section 10)."""

from enum import StrEnum


class ExecutionState(StrEnum):
    """The state of an execution; `TRANSITIONS` has what may follow it."""

    SCHEDULED = "scheduled"
    ENQUEUED = "enqueued"
    PROCESSING = "processing"
    FAILED = "failed"
    SUCCEEDED = "succeeded"
    TERMINATED = "terminated"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


_State = ExecutionState
TRANSITIONS: dict[ExecutionState, frozenset[ExecutionState]] = {
    _State.SCHEDULED: frozenset({_State.ENQUEUED, _State.SKIPPED, _State.CANCELLED}),
    _State.ENQUEUED: frozenset({_State.PROCESSING, _State.SKIPPED, _State.CANCELLED}),
    _State.PROCESSING: frozenset({_State.SUCCEEDED, _State.FAILED, _State.CANCELLED}),
    _State.FAILED: frozenset({_State.PROCESSING, _State.TERMINATED, _State.CANCELLED}),
    _State.SUCCEEDED: frozenset(),
    _State.TERMINATED: frozenset(),
    _State.CANCELLED: frozenset(),
    _State.SKIPPED: frozenset(),
}
LIVE = frozenset({_State.PROCESSING, _State.FAILED})
WAITING = frozenset({_State.SCHEDULED, _State.ENQUEUED})
TERMINAL = frozenset(state for state, following in TRANSITIONS.items() if not following)


class FailureType(StrEnum):
    """What kind of failure ended an attempt."""

    HTTP = "http"
    TIMEOUT = "timeout"
    CONNECT = "connect"
    TEMPLATE = "template"
    CHECK = "check"
    BUSINESS = "business"
    NO_INSTANCE = "no_instance"
    EGRESS = "egress"
    TOO_LARGE = "too_large"
    PARTIAL = "partial"
    LOST = "lost"
    CANCELLED = "cancelled"


class TriggeredBy(StrEnum):
    """What set an execution off."""

    TIMER = "timer"
    MANUAL = "manual"
    REPLAY = "replay"
    TRIAL = "trial"
    BACKFILL = "backfill"


PLANNED = (TriggeredBy.TIMER, TriggeredBy.BACKFILL)
"""Executions of moments of the timer: a pause ends those that wait."""


class JobState(StrEnum):
    """The state of a job as readers see it."""

    ACTIVE = "active"
    PAUSED = "paused"
    FINISHED = "finished"
    DESTROYED = "destroyed"


class FiringOutcome(StrEnum):
    """What became of a planned firing."""

    FIRED = "fired"
    LATE = "late"
    SKIPPED = "skipped"


class DeliveryState(StrEnum):
    """The state of a notification's delivery (SPEC section 7)."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"
    OUTBOX = "outbox"
    SUPERSEDED = "superseded"
    DISMISSED = "dismissed"


def follow(before: ExecutionState, after: ExecutionState) -> ExecutionState:
    """`after`. Raises AssertionError if it may not follow `before`, a mistake in the engine."""
    if after not in TRANSITIONS[before]:
        raise AssertionError(f"no execution goes from {before} to {after}")
    return after


def write_execution_id(uid: str, execute_number: int) -> str:
    """The id of an execution (SPEC section 10)."""
    return f"{uid}-{execute_number}"


def parse_execution_id(text: str) -> tuple[str, int] | None:
    """The uid and executeNumber of an execution's id; None: `text` is not one."""
    uid, dash, number = text.rpartition("-")
    if not (uid and dash and number.isascii() and number.isdigit() and len(number) <= 18):
        return None
    return uid, int(number)
