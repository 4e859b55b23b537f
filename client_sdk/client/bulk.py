"""`client.bulk`: one command for many jobs or executions, and its progress (SPEC section 10)."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from pydantic import PrivateAttr

from client_sdk.client.connection import CallGroup
from client_sdk.client.jobs import write_key
from client_sdk.errors import WaitTimedOut
from client_sdk.id_patterns import quote_name
from client_sdk.models import ExecutionAction, JobAction, answers

LONGER_SECONDS = 60.0
"""A filter that finds many takes a while."""
MOST_ROUNDS = 10
"""An operation that is interrupted is gone on with so often."""


class _SentRequest(NamedTuple):
    """A request as it is sent, and sent again."""

    what: str
    body: Mapping[str, Any]
    key: str


class Begun(answers.Bulk):
    """What a call began. It knows its request and the Idempotency-Key of it: see `BulkWork.wait_for`."""

    _asked: _SentRequest = PrivateAttr()


SomeOperation = str | answers.Operation


class BulkWork(CallGroup):
    """Commands for many things at once. Every method raises SdkError.

    Which ones: their ids, or `where`, the filters of `GET /jobs` or `GET /executions` by their names there
    (`{"label": "team:ops"}`). Only an empty mapping selects all: a filter that is None or an empty list
    raises ValueError, and no ids select nothing. What is refused is in the report and stops nothing.
    """

    async def jobs(
        self,
        action: JobAction,
        job_ids: Sequence[str] | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        drain: bool | None = None,
        misfire: Literal["skip", "fire_once", "fire_all"] | None = None,
        params: Mapping[str, Any] | None = None,
        labels: Mapping[str, str | None] | None = None,
        idempotency_key: str | None = None,
    ) -> Begun:
        """Pauses, resumes, disables, enables, triggers, labels or destroys many jobs.

        `labels` with None are removed. `dry_run` only counts. The operation of the answer may go on: see
        `wait_for`. With the same `idempotency_key` nothing is triggered twice.
        """
        members = {"drain": drain, "misfire": misfire, "params": params, "labels": labels}
        select = {"jobIds": job_ids, "filter": where}
        return await self._send("jobs", action, select, members, dry_run, idempotency_key)

    async def executions(
        self,
        action: ExecutionAction,
        execution_ids: Sequence[str] | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        reason: str | None = None,
        from_step: int | None = None,
        params: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Begun:
        """Cancels or replays many executions; with `where`, `cancel` finds those that have not ended."""
        members = {"reason": reason, "fromStep": from_step, "params": params}
        select = {"executionIds": execution_ids, "filter": where}
        return await self._send("executions", action, select, members, dry_run, idempotency_key)

    async def get(self, operation: SomeOperation) -> answers.Operation:
        """The operation as it is now. Raises Absent 24 hours after it."""
        return await self._connection.read(answers.Operation, _path(operation))

    async def cancel(self, operation: SomeOperation) -> answers.Operation:
        """Lets nothing more of the operation begin; what is done stays done."""
        return await self._connection.call(answers.Operation, "POST", f"{_path(operation)}/cancel", body={})

    async def wait_for(
        self, operation: SomeOperation | Begun, *, timeout: float | None = None
    ) -> answers.Operation:
        """The operation once it has ended, in whatever state. `timeout` in seconds; None: no limit.

        Given what `jobs` or `executions` returned, it goes on with one that was interrupted, at most ten
        times: the same request under the same key does the rest, and nothing twice. Raises ValueError for a
        dry run, WaitTimedOut; then the operation continues.
        """
        asked, rounds = (operation._asked, MOST_ROUNDS) if isinstance(operation, Begun) else (None, 0)
        name = operation.operation if isinstance(operation, Begun) else operation
        if name is None:
            raise ValueError("a dry run has no operation to wait for")
        said = ""
        async for _ in self._connection.looks(timeout):
            found = await self.get(name)
            while found.state == "interrupted" and asked is not None and rounds:
                rounds -= 1
                await self._ask(asked)
                found = await self.get(name)
            if found.state != "running":
                return found
            said = f"{found.operation_id}: {found.done} of {found.total} are done"
        raise WaitTimedOut(f"{said} after {timeout:g} s; it continues")

    async def _send(
        self,
        what: str,
        action: str,
        select: Mapping[str, Any],
        members: Mapping[str, Any],
        dry_run: bool,
        key: str | None,
    ) -> Begun:
        body = {
            "action": action,
            "select": {name: _plain(value) for name, value in select.items() if value is not None},
            "dryRun": dry_run,
            **{name: value for name, value in members.items() if value is not None},
        }
        return await self._ask(_SentRequest(what, body, write_key(key)))

    async def _ask(self, asked: _SentRequest) -> Begun:
        begun = await self._connection.call(
            Begun,
            "POST",
            f"/bulk/{asked.what}",
            body=asked.body,
            headers={"Idempotency-Key": asked.key},
            longer=LONGER_SECONDS,
        )
        begun._asked = asked
        return begun


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        raise TypeError(f"{value!r} is one id: give a list of them")
    if not isinstance(value, Mapping):
        return list(value)
    for name, given in value.items():
        _check_filter(name, given)
    return dict(value)


def _check_filter(name: str, given: Any) -> None:
    """Raises ValueError for what would look like no filter: services before this rule take it for all."""
    if given is None or given == "" or (isinstance(given, Collection) and not given):
        raise ValueError(f"the filter {name} is {given!r}: give a value, or leave {name} out")


def _path(operation: SomeOperation) -> str:
    name = operation if isinstance(operation, str) else operation.operation_id
    return f"/operations/{quote_name('operation', name)}"
