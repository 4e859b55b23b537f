"""Services, their instances and their declared jobs (SPEC sections 11, 13)."""

from typing import Any

from pydantic import AwareDatetime, Field

from client_sdk.models.answers.form import AnswerModel
from client_sdk.models.answers.words import DriftKind, InstanceState


class Instance(AnswerModel):
    """One running process of a service; `heartbeatSeconds` and `offlineSeconds` answer a registration."""

    instance_id: str
    address: str | None = None
    tags: list[str] = Field([])
    capacity: int | None = None
    description: str | None = None
    state: InstanceState = "online"
    load: float | None = None
    last_heartbeat: AwareDatetime | None = None
    heartbeat_seconds: float | None = None
    offline_seconds: float | None = None


class InstanceRef(AnswerModel):
    """The instance that sent a heartbeat or was removed."""

    instance_id: str
    state: InstanceState | None = None


class ServiceLine(AnswerModel):
    """A target application in a list; `onlineCount` instances take work.

    `paused` since `pausedAt`: no step is sent to it until it is resumed.
    """

    name: str
    address: str | None = None
    route: str | None = None
    tags: list[str] = Field([])
    on_change: str | None = None
    grace_seconds: float | None = None
    rate_limit: dict[str, Any] | None = None
    instance_count: int = 0
    online_count: int = 0
    paused: bool = False
    paused_at: AwareDatetime | None = None
    created_at: AwareDatetime | None = None
    updated_at: AwareDatetime | None = None


class Service(ServiceLine):
    """A target application by name, with its declared jobs and its instances."""

    timers: list[dict[str, Any]] = Field([])
    instances: list[Instance] = Field([])


class ServiceRef(AnswerModel):
    """The service that was removed."""

    name: str


class Difference(AnswerModel):
    """A difference between a declared and a stored definition; null may mean absent."""

    pointer: str
    declared: Any = None
    stored: Any = None


class Drift(AnswerModel):
    """A job that differs from its declaration: how, why, and what the next scan does."""

    job_id: str
    kind: DriftKind = "changed"
    action: str = "none"
    message: str = ""
    destroy_at: AwareDatetime | None = None
    differences: list[Difference] = Field([])
