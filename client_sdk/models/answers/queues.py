"""Answers of pull queues (SPEC section 13)."""

from typing import Any

from pydantic import AwareDatetime, Field

from client_sdk.models.answers.form import AnswerModel


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
