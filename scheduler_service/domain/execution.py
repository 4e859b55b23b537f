"""Executions: their states, failures, ids and deliveries (SPEC section 10)."""

from enum import StrEnum


class ExecutionState(StrEnum):
    """The state of an execution; `engine.states` has the transitions."""

    SCHEDULED = "scheduled"
    ENQUEUED = "enqueued"
    PROCESSING = "processing"
    FAILED = "failed"
    SUCCEEDED = "succeeded"
    TERMINATED = "terminated"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


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


def write_execution_id(uid: str, execute_number: int) -> str:
    """The id of an execution (SPEC section 10)."""
    return f"{uid}-{execute_number}"


def parse_execution_id(text: str) -> tuple[str, int] | None:
    """The uid and executeNumber of an execution's id; None: `text` is not one."""
    uid, dash, number = text.rpartition("-")
    if not (uid and dash and number.isascii() and number.isdigit() and len(number) <= 18):
        return None
    return uid, int(number)
