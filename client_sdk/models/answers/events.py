"""What happens to jobs and to the service, as `GET /events` tells it (docs/events.md)."""

from datetime import datetime

from client_sdk.models.answers.form import AnswerModel
from client_sdk.models.answers.words import EventKind, FailureType, TriggeredBy


class Event(AnswerModel):
    """One event; what does not concern its kind is None.

    `id` is that of the stream, to follow again after it. `count`: attempts of an execution, tries of a
    delivery, missed firings, or lost events of a `gap`. `subject`: an instance, a node, a worker process, a
    delivery, or what has recovered.
    """

    kind: EventKind
    at: datetime
    id: str | None = None
    job_id: str | None = None
    execution_id: str | None = None
    execute_number: int | None = None
    request_counts: int | None = None
    triggered_by: TriggeredBy | None = None
    state: str | None = None
    reason: str | None = None
    error: str | None = None
    failure_type: FailureType | None = None
    planned_at: datetime | None = None
    lateness_ms: int | None = None
    count: int | None = None
    revision: int | None = None
    subject: str | None = None
    node: str | None = None
    message: str | None = None
