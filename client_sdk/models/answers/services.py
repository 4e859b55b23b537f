"""Services, their instances and their declared jobs (SPEC sections 11, 13)."""

from typing import Any

from pydantic import AwareDatetime, Field

from client_sdk.models.answers.form import AnswerModel
from client_sdk.models.answers.words import InstanceState


class Instance(AnswerModel):
    """One running process of a service."""

    instance_id: str
    address: str | None = None
    tags: list[str] = Field([])
    capacity: int | None = None
    description: str | None = None
    state: InstanceState = "online"
    load: float | None = None
    last_heartbeat: AwareDatetime | None = None


class Service(AnswerModel):
    """A target application by name."""

    name: str
    address: str | None = None
    route: str | None = None
    tags: list[str] = Field([])
    timers: list[dict[str, Any]] = Field([])
    on_change: str | None = None
    grace_seconds: float | None = None
    instances: list[Instance] = Field([])


class Drift(AnswerModel):
    """A declared job whose stored definition differs, and how."""

    job_id: str
