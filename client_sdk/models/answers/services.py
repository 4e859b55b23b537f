"""Services, their instances and declared jobs, and pull queues (SPEC sections 11, 13)."""

from typing import Any

from pydantic import AwareDatetime, Field

from client_sdk.models.answers.form import AnswerModel, DriftKind, InstanceState, Total

__all__ = [
    "Claimed", "Difference", "Drift", "HeldPart", "Instance", "InstanceRef", "Queue", "QueueCounts",
    "QueueLine", "Renewed", "Service", "ServiceLine", "ServicePreview", "ServiceRef", "Work", "WorkRequest",
]  # fmt: skip


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


class ServiceMembers(AnswerModel):
    """What a service says of itself, beside its jobs."""

    name: str
    address: str | None = None
    route: str | None = None
    tags: list[str] = Field([])
    on_change: str | None = None
    grace_seconds: float | None = None
    rate_limit: dict[str, Any] | None = None
    signing: str | None = None
    options: dict[str, Any] = Field({})


class ServiceLine(ServiceMembers):
    """A target application in a list; `onlineCount` instances take work.

    `paused` since `pausedAt`: no step is sent to it until it is resumed.
    """

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


class ServicePreview(ServiceMembers):
    """What a registration would make of a service, beside its jobs; `isNew`: it is not known yet."""

    is_new: bool


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


class WorkRequest(AnswerModel):
    """A step as it would have been sent. `body` is a JSON value, or text if it is not JSON."""

    method: str = "POST"
    url: str = ""
    headers: dict[str, str] = Field({})
    body: Any = None


class Work(AnswerModel):
    """One part of a step, held for `leaseSeconds`, to be renewed every `renewSeconds`.

    A worker retries an unexpected exception of its function up to `maxUnexpectedRetries` times, after
    `unexpectedRetryDelaySeconds` each; None: an earlier version gave the part out, which did not say it.
    """

    lease: str
    lease_until: AwareDatetime
    execution_id: str
    request_counts: int
    request: WorkRequest
    shard_index: int | None = None
    shard_total: int | None = None
    scheduled_at: AwareDatetime | None = None
    cancelled: bool = False
    lease_seconds: float | None = None
    renew_seconds: float | None = None
    max_unexpected_retries: int | None = None
    unexpected_retry_delay_seconds: float | None = None


class Claimed(AnswerModel):
    """The claimed parts; empty if there were none in time."""

    items: list[Work]


class Renewed(AnswerModel):
    """The lease lasts until `leaseUntil`; `cancelled`: the work is no longer wanted."""

    lease_until: AwareDatetime
    lease_seconds: float | None = None
    renew_seconds: float | None = None
    cancelled: bool = False


class QueueLine(AnswerModel):
    """A queue: `depth` parts wait, the oldest since `oldestAt`, and `held` are under a lease.

    `paused` since `pausedAt`: nothing is claimed from it until it is resumed.
    """

    name: str
    depth: int
    oldest_at: AwareDatetime | None = None
    held: int = 0
    paused: bool = False
    paused_at: AwareDatetime | None = None


class HeldPart(AnswerModel):
    """A part that the instance `instanceId` has until `leaseUntil`."""

    execution_id: str
    job_id: str
    request_counts: int
    step: int = 0
    shard_index: int | None = None
    shard_total: int | None = None
    instance_id: str
    lease_until: AwareDatetime


class Queue(QueueLine):
    """A queue, and a page of the parts that are held."""

    items: list[HeldPart] = Field([])
    next_cursor: str | None = None


class QueueCounts(AnswerModel):
    """Parts of steps in all queues: how many wait, since when the oldest of them does, how many are held."""

    queues: Total
    waiting: int
    held: int
    oldest_at: AwareDatetime | None
