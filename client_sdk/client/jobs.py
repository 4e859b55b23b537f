"""`client.jobs`: creates, reads, changes and triggers jobs (SPEC section 10)."""

import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Literal

from client_sdk.client.connection import PAGE, CallGroup, Connection, iterate, parse
from client_sdk.client.results import Started
from client_sdk.id_patterns import check_name, quote_name
from client_sdk.models import JobDefinition, answers

LONGEST_KEY = 255
Definition = JobDefinition | Mapping[str, Any]


class PostedJob(answers.Job):
    """A job after it was posted, and the warnings about its definition."""

    warnings: list[answers.ProblemError]


class Jobs(CallGroup):
    """The jobs of one scheduler. Every method raises SdkError; `Absent` if the job does not exist.

    `service` owns the jobs that are created or updated here: their `service:/path` goes there
    (SPEC section 9).
    """

    def __init__(self, connection: Connection, service: str | None = None) -> None:
        if service is not None:
            check_name(service, kind="service")
        super().__init__(connection)
        self._owner = {} if service is None else {"X-Service": service}

    async def create(
        self, definition: Definition, *, job_id: str | None = None, idempotency_key: str | None = None
    ) -> PostedJob:
        """Creates the job; repeating the same definition changes nothing. Raises Conflict for another one.

        `job_id` None: the one in the definition.
        """
        body = write_definition(definition)
        name = job_id or body.get("jobId")
        if not name:
            raise ValueError("the definition has no jobId: write one, or give job_id")
        headers = {"Idempotency-Key": write_key(idempotency_key), **self._owner}
        return await self._connection.call(PostedJob, "POST", _path(name), body=body, headers=headers)

    async def create_many(
        self, definitions: Sequence[Definition], *, on_existing: Literal["update"] | None = None
    ) -> list[answers.ItemResult]:
        """Creates up to 1,000 jobs; one result each, in order; an invalid one does not stop the others."""
        results = await self._connection.call(
            answers.Results,
            "POST",
            "/jobs",
            query={"onExisting": on_existing},
            body=[write_definition(one) for one in definitions],
            headers={"Idempotency-Key": new_key(), **self._owner},
            longer=60,
        )
        return results.items

    async def compare(self, definitions: Sequence[Definition]) -> list[answers.ComparedDefinition]:
        """What updating or creating up to 1,000 jobs would do, one result each, in order; changes nothing."""
        body = [write_definition(one) for one in definitions]
        path = "/definitions/compare"
        found = await self._connection.call(
            answers.ComparedDefinitions, "POST", path, body=body, headers=self._owner, longer=60
        )
        return found.items

    async def get(self, job_id: str) -> answers.Job:
        """The job with its definition, state, next firing and counters."""
        return await self._connection.read(answers.Job, _path(job_id))

    async def update(
        self,
        job_id: str,
        definition: Definition,
        *,
        revision: int | None = None,
        idempotency_key: str | None = None,
    ) -> PostedJob:
        """Replaces the definition. With `revision`, only if it is still current: raises Outdated."""
        headers = {"Idempotency-Key": write_key(idempotency_key), **self._owner}
        if revision is not None:
            headers["If-Match"] = f'"{revision}"'
        path, body = f"{_path(job_id)}/update", write_definition(definition)
        return await self._connection.call(PostedJob, "POST", path, body=body, headers=headers)

    async def pause(self, job_id: str, *, drain: bool = False) -> answers.Job:
        """Stops the timer and cancels running executions; with `drain` they finish."""
        return await self._switch(job_id, {"active": 0, "drain": drain})

    async def resume(
        self, job_id: str, *, misfire: Literal["skip", "fire_once", "fire_all"] | None = None
    ) -> answers.Job:
        """Starts the timer again from now; `missed` of the answer counts the firings of the pause."""
        return await self._switch(job_id, {"active": 1, "misfire": misfire})

    async def disable(self, job_id: str) -> answers.Job:
        """Lets nothing of the job run: firings are skipped, triggers refused; what runs ends by itself."""
        return await self._switch(job_id, {"disabled": "true"})

    async def enable(self, job_id: str) -> answers.Job:
        """Lets a disabled job go on with its plan."""
        return await self._switch(job_id, {"disabled": "false"})

    async def destroy(self, job_id: str) -> answers.Destroyed:
        """Destroys the job; its history stays until it is cleaned.

        If an answer was lost and the job does not exist on the next try, it counts as destroyed.
        """
        envelope = await self._connection.send("DELETE", _path(job_id))
        return parse(answers.Destroyed, envelope.data or {"jobId": job_id, "state": "destroyed"})

    async def trigger(
        self,
        job_id: str,
        params: Mapping[str, Any] | None = None,
        *,
        delay_seconds: float | None = None,
        at: datetime | None = None,
        idempotency_key: str | None = None,
        reset: Literal["failed", "succeeded"] | None = None,
    ) -> Started:
        """Starts one execution, now or later; with a known key, returns that key's execution.

        Without a key, each call gets a new one, so that a retry after a lost answer starts nothing twice.
        Where the job has `keepResult`, `result()` of what it returns waits for what the job is answered.
        """
        started = await self._connection.call(
            Started,
            "POST",
            f"{_path(job_id)}/trigger",
            query={"delaySeconds": delay_seconds, "at": write_moment(at), "reset": reset},
            body=write_params(params),
            headers={"Idempotency-Key": write_key(idempotency_key)},
        )
        return started.over(self._connection)

    async def backfill(
        self,
        job_id: str,
        *,
        since: datetime,
        until: datetime,
        which: Literal["missing", "failed", "all"] = "missing",
        params: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> answers.Backfill:
        """Runs the past moments of the job's timer between two moments, both included, behind all that waits.

        `which`: `missing` those without an execution that ran, `failed` also those whose executions all ended
        badly, `all`. With `dry_run` they are only shown. At most 1,000.
        """
        body = {
            "from": write_moment(since),
            "to": write_moment(until),
            "which": which,
            "params": params,
            "dryRun": dry_run,
        }
        return await self._connection.call(
            answers.Backfill,
            "POST",
            f"{_path(job_id)}/backfill",
            body=body,
            headers={"Idempotency-Key": write_key(idempotency_key)},
        )

    def list(
        self,
        *,
        state: str | None = None,
        kind: str | None = None,
        labels: Mapping[str, str] | None = None,
        creator: str | None = None,
        object_id: str | None = None,
        parent_job: str | None = None,
        parent_job_execution: int | None = None,
        text: str | None = None,
        last_outcome: str | None = None,
        system: bool | None = None,
        timers: bool = False,
        definitions: bool = False,
        sort: str | None = None,
        page: int = PAGE,
    ) -> AsyncIterator[answers.JobLine]:
        """All matching jobs, a page at a time; with `timers` each has its timer in words.

        With `definitions` each has its definition, unless that has more than 64 KiB.

        `last_outcome`: those whose newest execution is succeeded, terminated, cancelled, skipped, running
        or waiting, or that have none.
        """
        query = {
            "state": state,
            "kind": kind,
            "label": write_labels(labels),
            "creator": creator,
            "objectId": object_id,
            "parentJob": parent_job,
            "parentJobExecution": parent_job_execution,
            "text": text,
            "lastOutcome": last_outcome,
            "system": system,
            "timers": timers or None,
            "definitions": definitions or None,
        }
        return iterate(self._connection, answers.JobLine, "/jobs", page=page, sort=sort, **query)

    async def counts(
        self,
        *,
        state: str | None = None,
        kind: str | None = None,
        labels: Mapping[str, str] | None = None,
        creator: str | None = None,
        text: str | None = None,
        last_outcome: str | None = None,
        system: bool | None = None,
    ) -> answers.JobCounts:
        """How many jobs `list` would have, by state, kind and what their newest execution came to."""
        query = {
            "state": state,
            "kind": kind,
            "label": write_labels(labels),
            "creator": creator,
            "text": text,
            "lastOutcome": last_outcome,
            "system": system,
        }
        return await self._connection.read(answers.JobCounts, "/counts/jobs", **query)

    def executions(
        self, job_id: str, *, state: str | None = None, outcome: str | None = None, page: int = PAGE
    ) -> AsyncIterator[answers.Execution]:
        """The executions of the job, the newest first; `outcome` as in `executions.list`."""
        path = f"{_path(job_id)}/executions"
        return iterate(self._connection, answers.Execution, path, page=page, state=state, outcome=outcome)

    async def outcomes(
        self, job_ids: Sequence[str], *, count: int | None = None
    ) -> Sequence[answers.JobOutcomes]:
        """The latest executions of up to 100 jobs briefly, newest last; `count` of each: 1 to 50 (20)."""
        query = {"jobId": list(job_ids), "count": count}
        return (await self._connection.read(answers.Outcomes, "/outcomes", **query)).items

    def firings(self, job_id: str, *, page: int = PAGE) -> AsyncIterator[answers.FiringLine]:
        """The planned firings and their outcomes."""
        return iterate(self._connection, answers.FiringLine, f"{_path(job_id)}/firings", page=page)

    def revisions(self, job_id: str, *, page: int = PAGE) -> AsyncIterator[answers.RevisionLine]:
        """The earlier definitions."""
        return iterate(self._connection, answers.RevisionLine, f"{_path(job_id)}/revisions", page=page)

    async def next(self, job_id: str, *, count: int | None = None) -> answers.Preview:
        """The next firings, with the timer as text."""
        return await self._connection.read(answers.Preview, f"{_path(job_id)}/next", count=count)

    async def retry_plan(self, job_id: str, *, error: str) -> answers.RetryPlan:
        """The retries of an execution that fails with this code every time."""
        return await self._connection.read(answers.RetryPlan, f"{_path(job_id)}/retry-plan", error=error)

    async def statistics(
        self, job_id: str, *, first: date | None = None, last: date | None = None
    ) -> answers.JobStatistics:
        """Outcomes, lateness and durations by day (UTC), both days included; by default of a week."""
        path, query = f"{_path(job_id)}/statistics", {"from": write_day(first), "to": write_day(last)}
        return await self._connection.read(answers.JobStatistics, path, **query)

    async def _switch(self, job_id: str, query: Mapping[str, Any]) -> answers.Job:
        return await self._connection.call(answers.Job, "PUT", _path(job_id), query=query)


def write_key(given: str | None) -> str:
    """The Idempotency-Key of a call: the given one, or a new one. Raises ValueError if it is invalid."""
    if given is None:
        return new_key()
    if not (given.isascii() and given.isprintable() and 0 < len(given) <= LONGEST_KEY):
        text = f"use 1 to {LONGEST_KEY} printable ASCII characters"
        raise ValueError(f"idempotency_key {given[:80]!r} cannot be sent: {text}")
    return given


def write_params(params: object) -> dict[str, Any]:
    """The parameters of a trigger. Raises TypeError for what is no mapping."""
    if params is None:
        return {}
    if not isinstance(params, Mapping):
        raise TypeError(f"params is of type {type(params).__name__}: give a mapping, as its JSON object is")
    return dict(params)


def new_key() -> str:
    """A new, unique Idempotency-Key."""
    return uuid.uuid4().hex


def write_definition(definition: object) -> dict[str, Any]:
    """The definition as posted, without defaults. Raises TypeError if it is not a definition."""
    if isinstance(definition, JobDefinition):
        return definition.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if callable(getattr(definition, "define", None)):  # `@job`, which is on a higher floor
        name = getattr(definition, "__name__", "")
        text = f"its service registers it, Service(jobs=[{name}]); give a mapping, or a JobDefinition"
        raise TypeError(f"definition is {name}, a job declared with @job: {text}")
    if not isinstance(definition, Mapping):
        text = "give a mapping, as its JSON object is, or a JobDefinition"
        raise TypeError(f"definition is of type {type(definition).__name__}: {text}")
    return dict(definition)


def write_moment(moment: datetime | None) -> str | None:
    """RFC 3339, as the service reads it; None stays None.

    Raises ValueError for a naive one, TypeError for what is no datetime.
    """
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        raise TypeError(f"{moment!r} is of type {type(moment).__name__}: give an aware datetime")
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no time zone: give an aware datetime")
    return moment.isoformat()


def write_labels(labels: Mapping[str, str] | None) -> Sequence[str]:
    """Labels as `label=key:value` of a query."""
    return [f"{name}:{value}" for name, value in (labels or {}).items()]


def write_day(day: date | None) -> str | None:
    """A day as the service reads it; None stays None."""
    return None if day is None else f"{day:%Y-%m-%d}"


def _path(job_id: str) -> str:
    return f"/jobs/{quote_name('job', job_id)}"
