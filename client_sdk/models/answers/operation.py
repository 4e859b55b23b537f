"""The service itself: its figures, its health, its cleaning (SPEC sections 10, 12, 14)."""

from typing import Any

from client_sdk.models.answers.form import AnswerModel
from client_sdk.models.answers.words import HealthStatus


class Cleaned(AnswerModel):
    """How much was removed."""

    jobs: int
    executions: int
    notifications: int


class Statistics(AnswerModel):
    """The figures of the last hour and of this moment."""

    due: int
    waiting: int
    running: int
    by_state: dict[str, int]
    lateness: dict[str, Any]
    per_minute: list[dict[str, Any]]


class Node(AnswerModel):
    """A running scheduler process as it said last; `state` is `running`, `draining` or `offline`."""

    node_id: str
    address: str
    version: str
    state: str
    started_at: str
    last_heartbeat: str
    jobs_held: int
    running: int


class Health(AnswerModel):
    """How the process is."""

    status: HealthStatus
    version: str
