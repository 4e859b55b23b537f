"""What an alert says of a failure: the code, what somebody wrote, and no word of the service's own."""

from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.occurrences import Occurrence, OccurrenceKind
from scheduler_service.ports.alerts import AlertLine, AlertState
from scheduler_service.telemetry.alerts.wording import body_of
from tests.rows import each_row


def line(error: str, kind: FailureType, **members: str) -> AlertLine:
    """A failed execution of the job `nightly`."""
    occurrence = Occurrence(
        kind=OccurrenceKind.FINAL_FAILED,
        at=10,
        job_id="nightly",
        execute_number=3,
        error=error,
        failure_type=kind,
        **members,  # type: ignore[arg-type]
    )
    return AlertLine(
        alert="ops",
        kind=OccurrenceKind.FINAL_FAILED,
        subject="nightly",
        state=AlertState.OPEN,
        since=10,
        at=10,
        count=1,
        total=1,
        said_at=None,
        occurrence=occurrence,
    )


@each_row(
    ("failed", "message", "why"),
    [
        (line("500", FailureType.HTTP, reason="no_policy"), None, "(500)"),
        (line("500", FailureType.CONNECT, reason="no_policy"), None, "(500: connect)"),
        (line("timeout", FailureType.TIMEOUT, reason="no_policy"), None, "(timeout)"),
        (line("disk", FailureType.BUSINESS, message="disk is full"), "disk is full", "(disk: disk is full)"),
        (line("cancelled", FailureType.CANCELLED, reason="not today"), "not today", "(cancelled: not today)"),
    ],
)
def test_why_it_failed(failed: AlertLine, message: str | None, why: str) -> None:
    """A reason is said where a person gave it: of a cancelled execution."""
    body = body_of(failed)
    assert body["message"] == message
    assert body["text"] == f"[ops] The job nightly failed in its execution 3 {why}."


def test_a_long_reason_is_cut() -> None:
    """To 500 characters, the mark of the cut among them."""
    body = body_of(line("cancelled", FailureType.CANCELLED, reason="x" * 501))
    assert body["message"] == "x" * 499 + "…"
    assert "x" * 499 + "…)" in str(body["text"])
