"""The timer of a job on the wire (SPEC section 3); `timing` parses its strings."""

from typing import Literal

from client_sdk.models.fields import PositiveCount, Seconds, Text, WireModel


class Misfire(WireModel):
    """How late firings are handled; None: the default of SPEC section 3."""

    policy: Literal["fire_once", "skip", "fire_all"] = "fire_once"
    grace_seconds: Seconds = 60
    limit: PositiveCount = 100


class Timer(WireModel):
    """When a job fires, as strings: durations, moments, cron, or `external`."""

    due_time: Text | None = None
    period: Text | None = None
    ttl: Text | None = None
    timezone: Text | None = None
    start_at: Text | None = None
    end_at: Text | None = None
    misfire: Misfire | None = None
    jitter_seconds: Seconds = 0
