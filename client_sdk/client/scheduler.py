"""`client.scheduler`: figures, nodes, what is planned, and previews without a job (SPEC section 10)."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Literal

from client_sdk.client.connection import PAGE, CallGroup, iterate
from client_sdk.client.jobs import (
    Definition,
    write_day,
    write_definition,
    write_key,
    write_labels,
    write_moment,
)
from client_sdk.models import Timer, answers


class CheckedDefinition(answers.CheckedDefinition):
    """What a definition would do, and the warnings about it."""

    warnings: list[answers.ProblemError]


class Scheduler(CallGroup):
    """One scheduler as a whole. Every method raises SdkError."""

    async def statistics(self) -> answers.Statistics:
        """What is due and running now, and the outcomes and lateness of the last hour."""
        return await self._connection.read(answers.Statistics, "/stats")

    async def daily(
        self,
        *,
        first: date | None = None,
        last: date | None = None,
        job_id: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> answers.DailyStatistics:
        """Outcomes, lateness and durations by day (UTC), both days included; by default of a week.

        Of all jobs, of one, or of those with `labels`; and which of them failed most and took longest.
        """
        query = {
            "from": write_day(first),
            "to": write_day(last),
            "jobId": job_id,
            "label": write_labels(labels),
        }
        return await self._connection.read(answers.DailyStatistics, "/statistics", **query)

    async def nodes(self) -> list[answers.Node]:
        """The scheduler's processes. Raises Absent where the service does not list them."""
        return (await self._connection.read(answers.Listing[answers.Node], "/nodes")).items

    async def alerts(self) -> answers.Alerts:
        """The alerts of the settings, and what of them lasts now."""
        return await self._connection.read(answers.Alerts, "/alerts")

    def audit(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        who: str | None = None,
        key: str | None = None,
        operation: str | None = None,
        job_id: str | None = None,
        service: str | None = None,
        page: int = PAGE,
    ) -> AsyncIterator[answers.AuditLine]:
        """What was changed, the newest first: by whom, from where, with which key, and the difference.

        `key`: the id of a key. `operation`: its name in the API, as `updateJob`. It needs the role admin.
        """
        query = {
            "from": write_moment(since),
            "to": write_moment(until),
            "who": who,
            "key": key,
            "operation": operation,
            "jobId": job_id,
            "service": service,
        }
        return iterate(self._connection, answers.AuditLine, "/audit", page=page, **query)

    async def upcoming_counts(
        self, *, planned_from: datetime | None = None, bucket_seconds: int = 60, buckets: int = 60
    ) -> answers.UpcomingCounts:
        """How many firings are planned from now, or from a moment, on, by buckets of time."""
        query = {"from": write_moment(planned_from), "bucketSeconds": bucket_seconds, "buckets": buckets}
        return await self._connection.read(answers.UpcomingCounts, "/counts/upcoming", **query)

    def upcoming(
        self,
        *,
        planned_from: datetime | None = None,
        planned_to: datetime | None = None,
        job_id: str | Sequence[str] | None = None,
        per_job: int | None = None,
        page: int = PAGE,
    ) -> AsyncIterator[answers.Planned]:
        """The planned firings of all jobs, the soonest first; by default of the next 24 hours.

        `job_id`: only of this job, or of these (empty: all). `per_job`: at most so many of each job (1 to
        1,000).
        """
        jobs = [job_id] if isinstance(job_id, str) else job_id
        query = {
            "from": write_moment(planned_from),
            "to": write_moment(planned_to),
            "jobId": None if jobs is None else list(jobs),
            "perJob": per_job,
        }
        return iterate(self._connection, answers.Planned, "/upcoming", page=page, **query)

    async def preview_timer(
        self,
        timer: Timer | Mapping[str, Any] | None,
        *,
        count: int | None = None,
        until: datetime | None = None,
    ) -> answers.Preview:
        """A timer as text, and its firings, if a job with it were created now. Raises Invalid."""
        body = _given(timer=_write_timer(timer), count=count, until=write_moment(until))
        return await self._connection.call(answers.Preview, "POST", "/timers/preview", body=body)

    async def outlook(
        self,
        timer: Timer | Mapping[str, Any] | None,
        *,
        days: int | None = None,
        since: date | datetime | None = None,
        job_id: str | None = None,
    ) -> answers.Outlook:
        """What a timer does over so many local days (1 to 366), and beside other jobs in the next one.

        `since`: by default now; `job_id` is left out of the other jobs. Raises Invalid.
        """
        start = write_moment(since) if isinstance(since, datetime) else write_day(since)
        body = _given(timer=_write_timer(timer), from_=start, days=days, jobId=job_id)
        return await self._connection.call(answers.Outlook, "POST", "/timers/outlook", body=body)

    async def check_definition(self, definition: Definition) -> CheckedDefinition:
        """What a definition would do, and its warnings, without creating a job. Raises Invalid."""
        body = write_definition(definition)
        return await self._connection.call(CheckedDefinition, "POST", "/definitions/check", body=body)

    async def try_definition(
        self,
        definition: Definition,
        params: Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> answers.Trial:
        """Runs a definition once without saving it; follow `execution_id` as any other. Raises Invalid.

        The service destroys the job that it makes for this by itself. Keys work as those of `jobs.trigger`.
        """
        return await self._connection.call(
            answers.Trial,
            "POST",
            "/definitions/try",
            body={"definition": write_definition(definition), "params": dict(params or {})},
            headers={"Idempotency-Key": write_key(idempotency_key)},
        )

    async def definition_schema(self) -> dict[str, Any]:
        """A definition as JSON Schema (2020-12)."""
        return dict((await self._connection.send("GET", "/schemas/job")).data)

    async def preview_template(
        self,
        template: Any,
        root: Any = None,
        *,
        place: Literal["body", "url", "header", "successWhen", "errorFrom", "messageFrom"] = "body",
    ) -> Any:
        """The value of a template on this root; of `successWhen` and the like on an answer, any JSON.

        Raises Invalid as the creation of a job would.
        """
        body = {"template": template, "root": {} if root is None else root, "place": place}
        found = await self._connection.call(answers.TemplateValue, "POST", "/templates/preview", body=body)
        return found.value


def _write_timer(timer: Timer | Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if isinstance(timer, Timer):
        return timer.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return timer


def _given(**members: Any) -> dict[str, Any]:
    """A body of those that are not None; `from_` is `from`."""
    return {name.rstrip("_"): value for name, value in members.items() if value is not None}
