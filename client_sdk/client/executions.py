"""`client.executions` and `client.deliveries`: executions and their notifications (SPEC sections 7, 10)."""

from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any

from client_sdk.client.connection import PAGE, Answer, CallGroup, iterate
from client_sdk.client.jobs import new_key, write_labels, write_moment
from client_sdk.client.results import (
    RECORDED_SECONDS,
    TERMINAL,
    SomeExecution,
    Started,
    id_of,
    path_of,
    wait_for_result,
)
from client_sdk.errors import Absent, WaitTimedOut
from client_sdk.id_patterns import quote_name
from client_sdk.models import answers

SomeDelivery = str | answers.DeliveryLine


class Executions(CallGroup):
    """The executions of one service. Every method raises SdkError; `Absent` if it does not exist.

    One is named by its executionId, as `nightly#7` (job, number), or `nightly#last`, the job's newest.
    """

    async def get(
        self, execution: SomeExecution, *, request_counts: int | None = None
    ) -> answers.ExecutionInFull:
        """The execution with its attempts, steps, checks, feedback and notifications.

        `request_counts`: with that attempt alone. Where `detail` is `partial`, older ones are left out.
        """
        query = {"requestCounts": request_counts}
        return await self._connection.read(answers.ExecutionInFull, path_of(execution), **query)

    async def wait_for(
        self, execution: SomeExecution, *, timeout: float | None = None
    ) -> answers.ExecutionInFull:
        """The execution once it has ended, in whatever state. `timeout` in seconds; None: no limit.

        Raises WaitTimedOut; the execution continues.
        """
        state = ""
        async for waited in self._connection.looks(timeout):
            found = await self._look(execution, waited)
            if found is not None and found.state in TERMINAL:
                return found
            if found is not None:
                execution, state = found, found.state  # the last one may be another one by now
            end = "it continues" if state else "it is about to begin, or there is none of that id"
        raise WaitTimedOut(f"{id_of(execution)} is {state or 'not recorded'} after {timeout:g} s; {end}")

    async def result(self, execution: SomeExecution, *, timeout: float | None = None) -> answers.Result:
        """What it was answered last, once it has ended; its `value` is JSON, a text or bytes.

        `timeout` in seconds; None: no limit. Raises WaitTimedOut, ExecutionFailed where it did not succeed,
        and Absent where it did but its job had no `keepResult`.
        """
        return await wait_for_result(self._connection, execution, timeout)

    def list(
        self,
        *,
        job_id: str | None = None,
        state: str | None = None,
        outcome: str | None = None,
        error: str | None = None,
        triggered_by: str | None = None,
        planned_from: datetime | None = None,
        planned_to: datetime | None = None,
        labels: Mapping[str, str] | None = None,
        page: int = PAGE,
    ) -> AsyncIterator[answers.Execution]:
        """All matching executions, the newest first, a page at a time.

        `outcome` is how they ended: succeeded, failed (for good), cancelled or skipped.
        """
        query = {
            "jobId": job_id,
            "state": state,
            "outcome": outcome,
            "error": error,
            "triggeredBy": triggered_by,
            "from": write_moment(planned_from),
            "to": write_moment(planned_to),
            "label": write_labels(labels),
        }
        return iterate(self._connection, answers.Execution, "/executions", page=page, **query)

    async def counts(
        self,
        *,
        job_id: str | None = None,
        outcome: str | None = None,
        error: str | None = None,
        triggered_by: str | None = None,
        planned_from: datetime | None = None,
        planned_to: datetime | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> answers.ExecutionCounts:
        """How many there are by state and error, of the newest 10,000 and 10,000 that did not succeed."""
        query = {
            "jobId": job_id,
            "outcome": outcome,
            "error": error,
            "triggeredBy": triggered_by,
            "from": write_moment(planned_from),
            "to": write_moment(planned_to),
            "label": write_labels(labels),
        }
        return await self._connection.read(answers.ExecutionCounts, "/counts/executions", **query)

    async def series(
        self,
        *,
        planned_from: datetime | None = None,
        planned_to: datetime | None = None,
        bucket_seconds: int | None = None,
        buckets: int | None = None,
        job_id: str | None = None,
        outcome: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> answers.Series:
        """Executions by buckets of time, by default 96 of the last 24 hours."""
        query = {
            "from": write_moment(planned_from),
            "to": write_moment(planned_to),
            "bucketSeconds": bucket_seconds,
            "buckets": buckets,
            "jobId": job_id,
            "outcome": outcome,
            "label": write_labels(labels),
        }
        return await self._connection.read(answers.Series, "/series/executions", **query)

    def log(self, execution: SomeExecution, *, page: int = PAGE) -> AsyncIterator[answers.LogLine]:
        """The log of the execution, in order of time."""
        return iterate(self._connection, answers.LogLine, f"{path_of(execution)}/log", page=page)

    async def cancel(self, execution: SomeExecution, *, reason: str | None = None) -> answers.Held:
        """Cancels a running or waiting execution. Raises Conflict if it has ended."""
        body = {} if reason is None else {"reason": reason}
        return await self._post(answers.Held, execution, "cancel", body)

    async def release(self, execution: SomeExecution) -> answers.Held:
        """Releases an execution that a debug switch holds."""
        return await self._post(answers.Held, execution, "release", {})

    async def replay(
        self, execution: SomeExecution, *, from_step: int = 0, params: Mapping[str, Any] | None = None
    ) -> Started:
        """Runs it again, from the step with this index, with the same or edited parameters."""
        body: dict[str, Any] = {"fromStep": from_step}
        if params is not None:
            body["params"] = dict(params)
        return (await self._post(Started, execution, "replay", body)).over(self._connection)

    async def _post(
        self, model: type[Answer], execution: SomeExecution, what: str, body: Mapping[str, Any]
    ) -> Answer:
        path, headers = f"{path_of(execution)}/{what}", {"Idempotency-Key": new_key()}
        return await self._connection.call(model, "POST", path, body=body, headers=headers)

    async def _look(self, execution: SomeExecution, waited: float) -> answers.ExecutionInFull | None:
        try:
            return await self.get(execution)
        except Absent:
            if waited > RECORDED_SECONDS:
                raise
            return None


class Deliveries(CallGroup):
    """The notifications of one scheduler. Every method raises SdkError; `Absent` if it does not exist."""

    def list(
        self,
        *,
        job_id: str | None = None,
        state: str | None = None,
        event: str | None = None,
        page: int = PAGE,
    ) -> AsyncIterator[answers.DeliveryLine]:
        """All matching notifications, the newest first, a page at a time."""
        query = {"jobId": job_id, "state": state, "event": event}
        return iterate(self._connection, answers.DeliveryLine, "/deliveries", page=page, **query)

    async def counts(
        self, *, job_id: str | None = None, state: str | None = None, event: str | None = None
    ) -> answers.DeliveryCounts:
        """How many match, by state."""
        query = {"jobId": job_id, "state": state, "event": event}
        return await self._connection.read(answers.DeliveryCounts, "/counts/deliveries", **query)

    async def resend(self, delivery: SomeDelivery) -> answers.DeliveryRef:
        """Tries it again now. Raises Conflict if it is not pending any more."""
        return await self._post(delivery, "resend")

    async def dismiss(self, delivery: SomeDelivery) -> answers.DeliveryRef:
        """Gives it up: it is not sent again. Raises Conflict if it is not pending any more."""
        return await self._post(delivery, "dismiss")

    async def _post(self, delivery: SomeDelivery, what: str) -> answers.DeliveryRef:
        name = delivery.delivery_id if isinstance(delivery, answers.DeliveryLine) else delivery
        path = f"/deliveries/{quote_name('delivery', name)}/{what}"
        headers = {"Idempotency-Key": new_key()}
        return await self._connection.call(answers.DeliveryRef, "POST", path, body={}, headers=headers)
