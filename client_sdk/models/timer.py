"""The timer of a job on the wire (SPEC section 3); `timing` parses its strings."""

from typing import Any, ClassVar, Literal

from pydantic import model_validator

from client_sdk.models.fields import PositiveCount, Seconds, Text, WireModel

FILLED_DUE_TIME = "0s"
"""The `dueTime` of a `period` alone."""


class Misfire(WireModel):
    """How late firings are handled; None: the default of SPEC section 3."""

    policy: Literal["fire_once", "skip", "fire_all"] = "fire_once"
    grace_seconds: Seconds = 60
    limit: PositiveCount = 100


class Timer(WireModel):
    """When a job fires, as strings: durations, moments, cron, or `external`.

    A `period` whose `dueTime` is not written at all has `FILLED_DUE_TIME`; null and "" are given, and empty.
    """

    nullable: ClassVar[frozenset[str]] = frozenset({"due_time"})

    due_time: Text | None = None
    period: Text | None = None
    ttl: Text | None = None
    timezone: Text | None = None
    start_at: Text | None = None
    end_at: Text | None = None
    misfire: Misfire | None = None
    jitter_seconds: Seconds = 0

    @model_validator(mode="before")
    @classmethod
    def _fill_due_time(cls, data: Any) -> Any:
        if not isinstance(data, dict) or "dueTime" in data or "due_time" in data:
            return data
        period = data.get("period")
        return data | {"dueTime": FILLED_DUE_TIME} if isinstance(period, str) and period.strip() else data
