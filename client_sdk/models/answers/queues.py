"""What a pull queue hands out (SPEC section 13)."""

from typing import Any

from pydantic import AwareDatetime, Field

from client_sdk.models.answers.form import AnswerModel


class Work(AnswerModel):
    """One part of a step, held under a lease. `request` is the step as it would have been sent."""

    lease: str
    lease_until: AwareDatetime
    execution_id: str
    request_counts: int
    request: dict[str, Any] = Field({})
    shard_index: int | None = None
    shard_total: int | None = None
    scheduled_at: AwareDatetime | None = None
    cancelled: bool = False
    renew_seconds: float | None = None


class Claimed(AnswerModel):
    """What a claim was given; nothing where nothing came in time."""

    items: list[Work]


class Renewed(AnswerModel):
    """The lease goes on until `leaseUntil`; `cancelled`: nobody wants the work any more."""

    lease_until: AwareDatetime
    cancelled: bool = False
