"""Registrations of services and instances, and heartbeats (SPEC sections 11, 13)."""

from typing import Annotated, Any, Literal

from pydantic import Field

from client_sdk.id_patterns import SERVICE_NAME as SERVICE_NAME
from client_sdk.models.definition import JobOptions
from client_sdk.models.fields import (
    LARGEST,
    Address,
    Description,
    FilledText,
    Flag,
    PositiveCount,
    Seconds,
    Tags,
    WireModel,
)
from client_sdk.models.step import Route

ServiceName = Annotated[str, Field(pattern=SERVICE_NAME)]
DeclaredTimers = list[dict[str, Any]]
"""Job definitions as posted; `parse_definition` validates each."""


SHORTEST_SPAN = 0.1
"""In seconds. Shorter spans are not measurable; a higher `count` has the same effect."""


class RateLimit(WireModel):
    """At most `count` requests in `perSeconds` seconds."""

    count: PositiveCount
    per_seconds: Annotated[float, Field(ge=SHORTEST_SPAN, le=LARGEST)]


class ServiceDeclaration(WireModel):
    """`PUT /services/{name}`. `timers` None: the timers stay, `[]`: no jobs any more."""

    address: Address | None = None
    route: Route | None = None
    tags: Tags | None = None
    timers: DeclaredTimers | None = None
    on_change: Literal["update", "keep"] | None = None
    grace_seconds: Seconds | None = None
    signing: FilledText | None = None
    rate_limit: RateLimit | None = None
    options: JobOptions | None = None


class InstanceRegistration(WireModel):
    """`PUT /services/{name}/instances/{id}`: the whole registration, repeated every 30 s."""

    address: Address | None = None
    tags: Tags | None = None
    capacity: PositiveCount | None = None
    description: Description | None = None
    timers: DeclaredTimers | None = None


class Heartbeat(WireModel):
    """`POST /services/{name}/instances/{id}/heartbeat`, every 3 s. `load`: its current load."""

    load: Annotated[float, Field(ge=0, le=1_000_000_000)] | None = None
    draining: Flag | None = None
