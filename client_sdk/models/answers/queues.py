"""What a pull queue hands out (SPEC section 13)."""

from typing import Any

from pydantic import AwareDatetime, Field

from client_sdk.models.answers.form import AnswerModel


class WorkRequest(AnswerModel):
    """A step as it would have been sent. `body` is the JSON value, or the text where it is none."""

    method: str = "POST"
    url: str = ""
    headers: dict[str, str] = Field({})
    body: Any = None


class Work(AnswerModel):
    """One part of a step, held for `leaseSeconds`, to be renewed every `renewSeconds`."""

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


class Claimed(AnswerModel):
    """What a claim was given; nothing where nothing came in time."""

    items: list[Work]


class Renewed(AnswerModel):
    """The lease goes on until `leaseUntil`; `cancelled`: nobody wants the work any more."""

    lease_until: AwareDatetime
    lease_seconds: float | None = None
    renew_seconds: float | None = None
    cancelled: bool = False
