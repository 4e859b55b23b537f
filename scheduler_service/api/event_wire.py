"""An occurrence as readers of the event stream get it: a frame of `text/event-stream`."""

from scheduler_service.api.responses import ENCODER
from scheduler_service.domain.job_key import read_job_key
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.occurrences import Occurrence, OccurrenceKind
from scheduler_service.telemetry.event_reader import UNKNOWN, EventId, EventReader
from scheduler_service.telemetry.event_ring import RingEvent


def event_wire(occurrence: Occurrence) -> dict[str, object]:
    """The `data` of an event (`client_sdk.models.answers.Event`); members without a value are left out."""
    planned_at = occurrence.planned_at
    members: dict[str, object] = {
        "kind": occurrence.kind,
        "at": rfc3339(occurrence.at),
        "jobId": None if occurrence.job_id is None else read_job_key(occurrence.job_id)[1],
        "executionId": occurrence.execution_id,
        "executeNumber": occurrence.execute_number,
        "requestCounts": occurrence.request_counts,
        "triggeredBy": occurrence.triggered_by,
        "state": occurrence.state,
        "reason": occurrence.reason,
        "error": occurrence.error,
        "failureType": occurrence.failure_type,
        "plannedAt": None if planned_at is None else rfc3339(planned_at),
        "latenessMs": occurrence.lateness_ms,
        "count": occurrence.count,
        "revision": occurrence.revision,
        "subject": occurrence.subject,
        "node": occurrence.node,
        "message": occurrence.message,
    }
    return {name: value for name, value in members.items() if value is not None}


def frame_of(reader: EventReader, event: RingEvent) -> bytes:
    """The frame of an event, made once for all readers."""
    if not event.frame:
        event.frame = _write(reader.id_of(event), event.occurrence)
    return event.frame


def gap_frame(count: int, at: int) -> bytes:
    """The frame that says that `count` events were lost (UNKNOWN: nobody knows how many). It has no id."""
    known = None if count == UNKNOWN else count
    return _write(None, Occurrence(kind=OccurrenceKind.GAP, at=at, count=known))


def _write(identity: EventId | None, occurrence: Occurrence) -> bytes:
    # JSON has no line break of its own: one line of `data` is enough.
    begin = "" if identity is None else f"id: {identity}\n"
    data = ENCODER.encode(event_wire(occurrence))
    return b"%bevent: %b\ndata: %b\n\n" % (begin.encode(), occurrence.kind.value.encode(), data)
