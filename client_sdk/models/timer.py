"""When a job fires, as it is written on the wire (SPEC section 3); `timing` reads the texts."""

from typing import Literal

from client_sdk.models.fields import PositiveCount, Seconds, Text, WireModel


class Misfire(WireModel):
    """What becomes of firings that are found late; None: the default of SPEC section 3."""

    policy: Literal["fire_once", "skip", "fire_all"] = "fire_once"
    grace_seconds: Seconds = 60
    limit: PositiveCount = 100


class Timer(WireModel):
    """The moments of a job, as texts: durations, moments, cron, or `external`."""

    due_time: Text | None = None
    period: Text | None = None
    ttl: Text | None = None
    timezone: Text | None = None
    start_at: Text | None = None
    end_at: Text | None = None
    misfire: Misfire | None = None
    jitter_seconds: Seconds = 0
