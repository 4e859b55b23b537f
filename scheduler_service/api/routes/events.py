"""The route of the event stream."""

from dataclasses import replace

from client_sdk.models import answers
from scheduler_service.api import events
from scheduler_service.api.event_stream import MEDIA_TYPE
from scheduler_service.api.parameters import Parameter, choice, label, texts
from scheduler_service.api.request import Operation, group
from scheduler_service.domain.occurrences import OccurrenceKind
from scheduler_service.security.callers import Role
from scheduler_service.telemetry.event_reader import read_event_id

_KIND = choice("event", "Only this kind; given several times, any of them.", OccurrenceKind)

EVENTS = group(
    "operation",
    Operation(
        route="GET /events",
        handler=events.stream_events,
        role=Role.VIEWER,
        summary="Follow what happens, as server-sent events",
        query=(
            replace(_KIND, schema={"type": "array", "items": _KIND.schema}, default=(), repeated=True),
            texts("jobId", "Only of this job; given several times, of any of them.", example=["nightly"]),
            texts("executionId", "Only of this execution; given several times, of any of them."),
            label(),
            Parameter(
                "lastEventId",
                read_event_id,
                {"type": "string", "pattern": "^[0-9a-z]{1,24}-[0-9]{1,18}$"},
                "What came after this event, for those who cannot send `Last-Event-ID`, which counts more.",
                example="7-1042",
            ),
        ),
        headers=("Last-Event-ID",),
        data=answers.Event,
        statuses=(406, 429),
        media_type=MEDIA_TYPE,
    ),
)
