"""The service itself: its figures, its health, its cleaning (SPEC sections 10, 12, 14)."""

from datetime import date, datetime
from typing import Any

from pydantic import AwareDatetime, Field, RootModel

from client_sdk.models.answers.form import AnswerModel, EventKind, FailureType, HealthStatus, TriggeredBy
from client_sdk.models.answers.timers import SoftProblem

__all__ = [
    "Alerts", "ApiKey", "AuditChange", "AuditLine", "Calendar", "CalendarDetail",
    "CalendarPreview", "CalendarPreviewOrProblem", "CalendarUse", "ChangedJob", "Cleaned",
    "ConfiguredAlert", "Daily", "DailyStatistics",
    "DayFigures", "Event", "FailingJob", "Figures", "Health", "HealthPart",
    "JobStatistics", "MadeKey", "Node", "NodeProcess", "OpenAlert", "PostedCalendar", "ReadDates", "Secret",
    "SecretList", "Session", "SlowJob", "Spread", "Statistics",
]  # fmt: skip


class Cleaned(AnswerModel):
    """How many rows were removed."""

    jobs: int
    executions: int
    notifications: int


class TenantLimit(AnswerModel):
    """A limit of the tenant (docs/settings.md): its value, and how much of it is used where that is known.

    Of executions a minute that is how many were created in the present minute.
    """

    name: str
    value: int
    used: int | None = None


class Statistics(AnswerModel):
    """Figures of the last hour and of the present moment."""

    due: int
    waiting: int
    running: int
    jobs: dict[str, int] = Field({})
    by_state: dict[str, int]
    lateness: dict[str, Any]
    per_minute: list[dict[str, Any]]
    limits: list[TenantLimit] = Field([])


class NodeProcess(AnswerModel):
    """A process of a node and its shard; `state` `missing`: it starts, or does not answer.

    `missing` has `store` or `history` where it cannot write them.
    """

    shard: int
    pid: int | None = None
    state: str
    started_at: AwareDatetime | None = None
    jobs_held: int
    running: int
    loop_held_ms: int
    missing: list[str] = Field([])


class Node(AnswerModel):
    """A node as it last reported; `state` is `running`, `draining`, `cut off` or `offline`.

    `processes` and the `versions` of what it stands on are those of the node that answers; of other nodes of
    a cluster the version of Punctual alone is known. `formats` are those of the data that it keeps: `state`
    or `redis`, `history`, `cluster`; of other nodes `cluster` alone, and none of one before 0.2.0.
    """

    node_id: str
    address: str
    version: str
    state: str
    started_at: str
    last_heartbeat: str
    jobs_held: int
    running: int
    processes: list[NodeProcess] = Field([])
    versions: dict[str, str] = Field({})
    formats: dict[str, str] = Field({})


class ApiKey(AnswerModel):
    """A key: `kind` is `person` or `service`, `state` `living`, `expired` or `revoked`.

    `lastUsedAt` is right to a minute. `earlierUntil`: so long the text before the last rotation is valid.
    """

    key_id: str
    name: str
    tenant: str
    role: str
    kind: str
    service: str | None = None
    labels: list[str] = Field([])
    state: str
    created_at: AwareDatetime
    created_by: str
    expires_at: AwareDatetime | None = None
    last_used_at: AwareDatetime | None = None
    revoked_at: AwareDatetime | None = None
    rotations: int = 0
    earlier_until: AwareDatetime | None = None


class MadeKey(ApiKey):
    """A new key, or one with a new text: `key`, which is shown this once."""

    key: str


class AuditChange(AnswerModel):
    """One place (RFC 6901) of a difference; masked values are `***`, a long one is cut."""

    pointer: str
    before: Any
    after: Any


class AuditLine(AnswerModel):
    """One change. `via`: `api`, `system` (the service itself) or `command` (on the data folder).

    `outcome`: `done`; `refused`: nothing was changed; `unknown`: the store did not say; `asked`: it was under
    way when its process ended. `items`: the ids, where one request changed several. `fromRevision`: what the
    difference begins with. `truncated`: there are more differences.
    """

    id: str
    at: AwareDatetime
    who: str
    key_id: str | None
    via: str
    address: str | None
    operation: str
    kind: str
    subject: str
    job_id: str | None
    execution_id: str | None
    service: str | None
    from_revision: int | None
    revision: int | None
    outcome: str
    status: int | None
    given: dict[str, Any]
    difference: list[AuditChange]
    items: list[str]
    truncated: bool


class PostedCalendar(AnswerModel):
    """A calendar as it is posted."""

    timezone: str | None = None
    week: list[int]
    free: list[str]
    work: list[str]
    country: str | None = None


class Calendar(PostedCalendar):
    """A calendar as it was stored; `version` counts its changes."""

    name: str
    version: int
    created_at: AwareDatetime
    updated_at: AwareDatetime


class CalendarUse(AnswerModel):
    """The first jobs that use a calendar; `isCapped`: there are more."""

    jobs: list[str]
    is_capped: bool


class CalendarDetail(Calendar):
    """A calendar with the days of a year that are not as its week says, and the jobs that use it."""

    year: int
    working_days: int
    free_days: list[str]
    make_up_days: list[str]
    used_by: CalendarUse


class ReadDates(AnswerModel):
    """The days of a text, and the calendar with them; `format` is `icalendar` or `dates`.

    `leftOut`: the events that are neither days off nor make-up days, the first of them by name.
    """

    format: str
    free: list[str]
    work: list[str]
    left_out: list[str]
    calendar: PostedCalendar


class ChangedJob(AnswerModel):
    """A job that would fire at other moments: the firings of both plans from the first change on.

    `firstChange` None: none was found among the next thousands of moments; the firings are the next ones.
    """

    job_id: str
    first_change: AwareDatetime | None
    before: list[AwareDatetime]
    after: list[AwareDatetime]


class CalendarPreview(AnswerModel):
    """A calendar that is not stored: its days of a year, and the jobs that would fire at other moments.

    `jobs` are those that change of the `checked` ones of this page, which is the last one without a
    `nextCursor`.
    """

    year: int
    working_days: int
    free_days: list[str]
    make_up_days: list[str]
    jobs: list[ChangedJob]
    checked: int
    next_cursor: str | None


class CalendarPreviewOrProblem(RootModel[CalendarPreview | SoftProblem]):
    """A preview of a calendar; with `soft` the problem, if there is one."""


class Secret(AnswerModel):
    """A secret without its value: `source` is `settings`, `file` or `stored`, as the first that has it.

    `values`: 2 while one replaces another; 0: it is stored under another key, and cannot be used.
    """

    name: str
    source: str
    values: int
    created_at: AwareDatetime | None = None
    updated_at: AwareDatetime | None = None


class SecretList(AnswerModel):
    """The secrets of a tenant; `canStore`: this service has a key to store them."""

    items: list[Secret]
    can_store: bool


class Session(AnswerModel):
    """Who the caller is; `role` null: not known, where `needsKey`. `expiresAt` null: it has no end.

    `service` and `labels`: the part of the tenant that the caller's key is for; null and none: all of it.
    `is_of_proxy`: a proxy has signed it in.
    """

    name: str | None
    tenant: str | None
    role: str | None
    service: str | None = None
    labels: list[str] = Field([])
    key_id: str | None = None
    expires_at: AwareDatetime | None
    is_of_proxy: bool = False
    needs_key: bool


class HealthPart(AnswerModel):
    """What a service needs for its work: `ready`, `missing`, or `troubled`, which it bears; since when.

    `missing` names what is, where the part consists of several things.
    """

    name: str
    state: str
    since: AwareDatetime
    missing: list[str] = Field([])


class Health(AnswerModel):
    """The health of the process; the loop was held for `loopHeldMs` in the last minute, at most."""

    status: HealthStatus
    version: str
    loop_held_ms: int | None = None
    parts: list[HealthPart] = Field([])


class ConfiguredAlert(AnswerModel):
    """An alert of the settings; values of headers, and the query of the address, are hidden.

    `deliveriesOf`: the job whose deliveries are those of this alert. `trouble`: why it cannot be sent as
    settings are now; null: it can.
    """

    name: str
    on: list[str]
    url: str
    method: str = "POST"
    headers: dict[str, str] = Field({})
    label: list[str] = Field([])
    job_id: str | None = None
    min_interval_seconds: float
    overdue_seconds: float
    failing_count: int
    deliveries_of: str
    trouble: str | None = None
    format: str = "json"


class OpenAlert(AnswerModel):
    """What one alert is open for; `saidAt` null: it was not sent yet."""

    alert: str
    kind: str
    subject: str
    job_id: str | None = None
    execution_id: str | None = None
    since: AwareDatetime
    said_at: AwareDatetime | None = None
    text: str


class Alerts(AnswerModel):
    """All alerts; `open` has the first 500 of `openCount`."""

    configured: list[ConfiguredAlert]
    open: list[OpenAlert]
    open_count: int


class Event(AnswerModel):
    """One event; what does not concern its kind is None.

    `id` is that of the stream, to follow again after it. `count`: attempts of an execution, tries of a
    delivery, missed firings, or lost events of a `gap`. `subject`: an instance, a node, a worker process, a
    delivery, or what has recovered.
    """

    kind: EventKind
    at: datetime
    id: str | None = None
    job_id: str | None = None
    execution_id: str | None = None
    execute_number: int | None = None
    request_counts: int | None = None
    triggered_by: TriggeredBy | None = None
    state: str | None = None
    reason: str | None = None
    error: str | None = None
    failure_type: FailureType | None = None
    planned_at: datetime | None = None
    lateness_ms: int | None = None
    count: int | None = None
    revision: int | None = None
    subject: str | None = None
    node: str | None = None
    message: str | None = None


class Spread(AnswerModel):
    """Durations in ms, null where there are none; but `mean` each is wrong by an eighth at most."""

    p50: int | None = None
    p90: int | None = None
    p95: int | None = None
    p99: int | None = None
    max: int | None = None
    mean: int | None = None


class Figures(AnswerModel):
    """Executions that have ended; `lateness` is that of the timer's, `duration` from start to end."""

    executions: int
    by_outcome: dict[str, int]
    by_failure_type: dict[str, int] = Field({})
    attempts: int
    lateness: Spread
    duration: Spread


class DayFigures(Figures):
    """The executions planned on one day (UTC)."""

    day: date


class Daily(AnswerModel):
    """The days from `from` to `to`, both included, that have executions, and their sum."""

    first: date = Field(alias="from")
    last: date = Field(alias="to")
    total: Figures
    days: list[DayFigures]


class JobStatistics(Daily):
    """The statistics of one job."""

    job_id: str


class FailingJob(AnswerModel):
    """A job with executions that failed for good, and their share of all that have ended."""

    job_id: str
    executions: int
    failed: int
    failed_share: float


class SlowJob(AnswerModel):
    """A job, and how long an execution of it takes on average."""

    job_id: str
    executions: int
    mean_ms: int


class DailyStatistics(Daily):
    """The statistics of several jobs: which of them failed most and took longest, at most ten each."""

    failing: list[FailingJob]
    slowest: list[SlowJob]
