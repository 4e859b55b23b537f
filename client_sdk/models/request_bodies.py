"""Bodies of requests that are no definitions: of jobs, executions, queues, and of many at once."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from client_sdk.models.definition import LabelName, Timer, read_timer
from client_sdk.models.fields import (
    COUNTRY,
    LABEL_SCOPE,
    MOST_TAGS,
    TENANT,
    Count,
    FilledName,
    FilledText,
    Flag,
    InstanceId,
    Integer,
    JobId,
    PlainText,
    PositiveCount,
    Seconds,
    Text,
    WireModel,
)
from client_sdk.models.services import ServiceName

LONGEST_WAIT = 60
"""In seconds: how long a claim may wait for work."""
MOST_NAMED = 5_000
"""So many ids fit into a body of the usual limit."""
MOST_LABELS = 100
MAX_DAYS = 1_000
"""So many dates and ranges a list of a calendar may have."""
LONGEST_DATES = 1_000_000
"""So many characters a text with the dates of a calendar may have."""
LONGEST_OVERLAP = 2_592_000
"""In seconds, 30 days: how long two texts of one key are valid."""
RoleName = Literal["viewer", "operator", "editor", "admin"]
TenantName = Annotated[str, Field(pattern=TENANT)]
KeyName = Annotated[PlainText, Field(min_length=1, max_length=128)]
LabelScope = Annotated[PlainText, Field(pattern=LABEL_SCOPE)]
JobAction = Literal["pause", "resume", "trigger", "destroy", "label", "disable", "enable"]
ExecutionAction = Literal["replay", "cancel"]


class Activation(WireModel):
    """`PUT /jobs/{jobId}`: whether the job is to fire, or whether nothing of it is to run."""

    active: Flag | None = None
    disabled: Flag | None = None


class Cancellation(WireModel):
    """`POST /executions/{executionId}/cancel`."""

    reason: FilledName | None = None


class ReplayRequest(WireModel):
    """`POST /executions/{executionId}/replay`: from which step (its `index`), with which parameters."""

    from_step: Count = 0
    params: dict[str, Any] | None = None


class BackfillRequest(WireModel):
    """`POST /jobs/{jobId}/backfill`: past moments of the timer, both ends included.

    `which`: `missing` those without an execution that ran, `failed` also those whose executions all ended
    badly, `all`. With `dryRun` nothing is started.
    """

    from_: FilledText
    to: FilledText
    which: Literal["missing", "failed", "all"] = "missing"
    params: dict[str, Any] | None = None
    dry_run: Flag = False


class SignIn(WireModel):
    """`POST /session`: the key that callers without a browser send as `Authorization: Bearer KEY`."""

    key: FilledText


class NewKey(WireModel):
    """`POST /keys`: a key for a person or a program; with `service` for that service, which it sees alone.

    `tenant`: by default the caller's own. `labels`, as `NAME:VALUE`: it sees jobs that have all of these
    alone. `expiresAt`: without it the key has no end.
    """

    name: KeyName
    role: RoleName
    tenant: TenantName | None = None
    service: ServiceName | None = None
    labels: Annotated[list[LabelScope], Field(max_length=MOST_TAGS)] | None = None
    expires_at: Text | None = None


class Rotation(WireModel):
    """`POST /keys/{keyId}/rotate`: so long the old text is valid beside the new one."""

    overlap_seconds: Annotated[Seconds, Field(le=LONGEST_OVERLAP)] = 0


class NewSecret(WireModel):
    """`PUT /secrets/{secretName}`: its value, or two, the new one first. `keepEarlier`: the one before stays
    the second, so that targets that check may be changed later.
    """

    value: Annotated[str, Field(min_length=4)] | Annotated[list[str], Field(min_length=1, max_length=2)]
    keep_earlier: Flag = False


class NewCalendar(WireModel):
    """`PUT /calendars/{calendarName}`: which days are working days.

    `week`: Monday is 1. `free` and `work` hold dates and ranges `2026-10-01/2026-10-07`; days of `work` win
    over those of `free`, both over those of `country`, all over `week`. `timezone` None: that of each timer.
    """

    timezone: Text | None = None
    week: list[Annotated[int, Field(ge=1, le=7)]] = Field(default=[1, 2, 3, 4, 5], max_length=7)
    free: list[Text] = Field(default=[], max_length=MAX_DAYS)
    work: list[Text] = Field(default=[], max_length=MAX_DAYS)
    country: Annotated[str, Field(pattern=COUNTRY)] | None = None


class DatesText(WireModel):
    """`POST /dates/read`: an iCalendar file, or a list of dates and ranges, one a line.

    `as`: what its days are, where it does not say so itself. `calendar`: the one to which they are added.
    """

    text: Annotated[str, Field(min_length=1, max_length=LONGEST_DATES)]
    as_: Literal["free", "work"] = "free"
    calendar: NewCalendar = NewCalendar()


class PreviewRequest(WireModel):
    """`POST /timers/preview`; `from` is the moment of creation for delays and ttl."""

    timer: Annotated[Timer | None, BeforeValidator(read_timer, json_schema_input_type=Timer | str | None)] = (
        None
    )
    from_: Text | None = None
    until: Text | None = None
    count: Annotated[Integer, Field(ge=1, le=1_000)] | None = None


class OutlookRequest(WireModel):
    """`POST /timers/outlook`; `from` is the moment of creation; `jobId` is left out of the other jobs."""

    timer: Annotated[Timer | None, BeforeValidator(read_timer, json_schema_input_type=Timer | str | None)] = (
        None
    )
    from_: Text | None = None
    days: Annotated[Integer, Field(ge=1, le=366)] = 30
    job_id: JobId | None = None


class TrialRequest(WireModel):
    """`POST /definitions/try`: a definition, and the parameters of its one execution."""

    definition: dict[str, Any]
    params: dict[str, Any] = Field({})


class TemplateRequest(WireModel):
    """`POST /templates/preview`: a text, in a body any JSON value; tried on `root` as if it stood there.

    Of `successWhen`, `errorFrom` and `messageFrom` `root` is an answer, any JSON; else an object.
    """

    template: Any
    root: Any = Field({})
    place: Literal["body", "url", "header", "successWhen", "errorFrom", "messageFrom"] = "body"


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


class JobSelection(WireModel):
    """Which jobs: those named, or those that fit the filters of `GET /jobs`; `{}` are all."""

    job_ids: Annotated[list[JobId], Field(max_length=MOST_NAMED)] | None = None
    filter: dict[str, Any] | None = None


class BulkJobs(WireModel):
    """`POST /bulk/jobs`: one command for each of many jobs.

    `drain` belongs to `pause`, `misfire` to `resume`, `params` to `trigger`, `labels` to `label`, where null
    removes one. With `dryRun` nothing is done.
    """

    action: JobAction
    select: JobSelection
    dry_run: bool = False
    drain: bool = False
    misfire: Literal["skip", "fire_once", "fire_all"] = "skip"
    params: dict[str, Any] | None = None
    labels: Annotated[dict[LabelName, Text | None], Field(max_length=MOST_LABELS)] | None = None


class ExecutionSelection(WireModel):
    """Which executions: those named, or those that fit the filters of `GET /executions`."""

    execution_ids: Annotated[list[FilledText], Field(max_length=MOST_NAMED)] | None = None
    filter: dict[str, Any] | None = None


class BulkExecutions(WireModel):
    """`POST /bulk/executions`: cancels or replays many executions.

    `reason` belongs to `cancel`, `fromStep` and `params` to `replay`; without `params` each has its own.
    """

    action: ExecutionAction
    select: ExecutionSelection
    dry_run: bool = False
    reason: FilledName | None = None
    from_step: Count = 0
    params: dict[str, Any] | None = None
