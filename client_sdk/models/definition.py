"""The definition of a job, as it is posted (SPEC section 2)."""

import json
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from client_sdk.models.fields import (
    Bit,
    CalendarName,
    Codes,
    Count,
    FilledText,
    Flag,
    JitterKind,
    JobId,
    LeadSeconds,
    PlainText,
    PositiveCount,
    Seconds,
    Text,
    WireModel,
    refuse,
)
from client_sdk.models.step import CancelUrl, CheckUrl, Notification, RequestStep

FILLED_DUE_TIME = "0s"
"""The `dueTime` of a `period` alone."""
MAX_STEPS = 500
MAX_ENTRIES = 100
"""The limits of steps in a chain, and of entries in `notification` and `retry`."""


class Misfire(WireModel):
    """How late firings are handled; None: the default of SPEC section 3."""

    policy: Literal["fire_once", "skip", "fire_all"] = "fire_once"
    grace_seconds: Seconds = 60
    limit: PositiveCount = 100


def _read_calendar(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


class CalendarDays(WireModel):
    """On which days of a calendar a timer fires, and what becomes of its moments on others."""

    name: CalendarName
    days: Literal["work", "free"] = "work"
    otherwise: Literal["skip", "next", "previous"] = "skip"


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
    period_from: Literal["start", "end"] = "start"
    calendar: Annotated[
        CalendarDays | None,
        BeforeValidator(_read_calendar, json_schema_input_type=CalendarDays | str | None),
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _fill_due_time(cls, data: Any) -> Any:
        if not isinstance(data, dict) or "dueTime" in data or "due_time" in data:
            return data
        period = data.get("period")
        return data | {"dueTime": FILLED_DUE_TIME} if isinstance(period, str) and period.strip() else data


def read_timer(value: object) -> object:
    """An object, or a string that holds one; an empty string means no timer."""
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    try:
        held = json.loads(value, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        held = None
    if not isinstance(held, dict):
        raise refuse(
            "invalid", 'must be an object, or a string that holds one, as in {"dueTime":"0s","period":"5m"}'
        )
    return held


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _read_check(value: object) -> object:
    return {"method": "GET", "url": value} if isinstance(value, str) else value


def _check_schema(value: object) -> object:
    if value is None or isinstance(value, dict | bool):
        return value
    raise refuse("type", "must be a JSON Schema: an object, true or false")


def _check_label(name: str) -> str:
    if ":" in name or not name:
        raise refuse("label", "must be a name without ':', which separates name and value in filters")
    return name


LabelName = Annotated[Text, AfterValidator(_check_label)]
PlainLabel = Annotated[PlainText, AfterValidator(_check_label)]


class RetryPolicy(WireModel):
    """One entry of `retry` (SPEC section 6); `errorEquals` is kept as it was given."""

    error_equals: Codes
    interval_seconds: Seconds = 1
    max_attempts: Count = 2
    backoff_rate: Annotated[float, Field(ge=1, le=1_000_000)] = 2.0
    max_interval_seconds: Seconds | None = None
    jitter: JitterKind = "none"

    @property
    def errors(self) -> frozenset[str]:
        """The codes of `errorEquals`, as a set."""
        return frozenset([self.error_equals] if isinstance(self.error_equals, str) else self.error_equals)


class JobOptions(WireModel):
    """Options that a service gives its jobs; a job's own come first, then these, then the tenant's."""

    check_rate_seconds: Annotated[float, Field(ge=0.1, le=1_000_000_000)] | None = None
    timeout_seconds: Seconds | None = None
    retry: Annotated[list[RetryPolicy], Field(max_length=MAX_ENTRIES)] | None = None
    max_retries: Count | None = None
    qos: Bit | None = None
    max_concurrency: PositiveCount | None = None
    overlap_policy: Literal["skip", "queue", "cancel_running", "allow"] | None = None
    queue_limit: Count | None = None
    lead_seconds: LeadSeconds | None = None
    history_detail: Literal["all", "failures", "none"] | None = None


class ServiceOptions(JobOptions):
    """The options that the owner of a job gives; the scheduler writes them into its definition."""

    service: FilledText


class JobDefinition(WireModel):
    """A job as posted.

    `creator` and `creatorName` None: the service names who posts it (SPEC section 2).
    `leadSeconds` None: 0, or 3 if a step goes to a queue. `timeoutSeconds` 0: no limit, where the chain ends
    in asynchronous or claimed work. `serviceOptions` is the scheduler's: what is posted of it is left out.
    """

    job_id: JobId | None = None
    object_id: Text | None = None
    job_name: FilledText
    job_description: Text | None = None
    creator: FilledText | None = None
    creator_name: FilledText | None = None
    notification: list[Notification] = Field([], max_length=MAX_ENTRIES)
    active: Flag = True
    timer: Annotated[
        Timer | None,
        BeforeValidator(read_timer, json_schema_input_type=Timer | str | None),
    ] = None
    request: Annotated[list[RequestStep], Field(min_length=1, max_length=MAX_STEPS)]
    asynchronous: bool = False
    check_url: Annotated[
        CheckUrl | None,
        BeforeValidator(_read_check, json_schema_input_type=CheckUrl | str | None),
    ] = None
    check_rate_seconds: Annotated[float, Field(ge=0.1, le=1_000_000_000)] = 1
    timeout_seconds: Seconds = 60
    cancel_url: CancelUrl | None = None
    retry: list[RetryPolicy] = Field([], max_length=MAX_ENTRIES)
    max_retries: Count = 5
    qos: Bit = 0
    parent_job: JobId | None = None
    parent_job_execution: Count | None = None
    max_concurrency: PositiveCount = 1
    overlap_policy: Literal["skip", "queue", "cancel_running", "allow"] = "skip"
    queue_limit: Count = 100
    lead_seconds: LeadSeconds | None = None
    start_policy: Literal["auto", "manual"] = "auto"
    disabled: bool = False
    pause_after_failures: PositiveCount | None = None
    keep_result: bool = False
    history_detail: Literal["all", "failures", "none"] | None = None
    labels: dict[LabelName, Text] = Field({})
    service_options: ServiceOptions | None = None
    params_schema: Annotated[
        Any, BeforeValidator(_check_schema, json_schema_input_type=dict[str, Any] | bool | None)
    ] = None
