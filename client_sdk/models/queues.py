"""Requests to pull queues (SPEC section 13)."""

from typing import Annotated, Any, Literal

from pydantic import Field

from client_sdk.models.fields import InstanceId, Integer, PositiveCount, Seconds, Text, WireModel

LONGEST_WAIT = 60
"""In seconds: how long a claim may wait for work."""


class Claim(WireModel):
    """`POST /queues/{name}/claim`: at most `max` items, waited for up to `waitSeconds`."""

    instance_id: InstanceId
    max: PositiveCount = 1
    wait_seconds: Annotated[Seconds, Field(le=LONGEST_WAIT)] = 0


class Renewal(WireModel):
    """`POST /leases/{lease}/renew`: renews a lease, with progress."""

    progress: Text | None = None
    message: Text | None = None


class HeldPartName(WireModel):
    """`POST /queues/{name}/free`: which part, as `GET /queues/{name}` shows it."""

    execution_id: Text
    request_counts: PositiveCount
    step: Annotated[Integer, Field(ge=0)] = 0
    shard_index: Annotated[Integer, Field(ge=0)] = 0


class Completion(WireModel):
    """`POST /leases/{lease}/complete`: the part's end, in the form of a feedback (SPEC section 5).

    `data` is the response that later templates read.
    """

    status: Literal["succeed", "failed"]
    error: Text | None = None
    message: Text | None = None
    data: Any = None
