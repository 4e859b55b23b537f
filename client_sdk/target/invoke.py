"""Runs a job's function, and describes its end for answers, feedback and completions."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from client_sdk.errors import Invalid, JobFailed
from client_sdk.target.declaration import Declaration
from client_sdk.target.execution import Execution
from client_sdk.target.parameters import write_data
from client_sdk.target.reporting import FAILED, SUCCEED, AttemptReport

LONGEST_HOLD_SECONDS = 3_600.0
"""No work is handed out earlier than this (SPEC section 2, leadSeconds)."""
LOG = logging.getLogger("client_sdk")
UNEXPECTED = "500"
"""The error code of an unexpected exception."""
INTERRUPTED = "interrupted"
"""The error code of work that was stopped because its instance stops."""
TOO_LARGE, UNREADABLE = "response_too_large", "invalid_result"
"""The error codes of results that the service refuses."""


class End(msgspec.Struct, frozen=True, kw_only=True):
    """The end of the work. `status` is its HTTP status, `error` None if it succeeded.

    `is_unexpected`: the function raised another exception than JobFailed.
    """

    status: int = 200
    error: str | None = None
    message: str | None = None
    data: Any = None
    retry_after: float | None = None
    is_unexpected: bool = False

    @property
    def report(self) -> AttemptReport:
        """The end as a report by feedback."""
        status = SUCCEED if self.error is None else FAILED
        return AttemptReport(status=status, error=self.error, message=self.message, data=self.data)


async def hold(
    moment: datetime | None, clock: Callable[[], float], pause: Callable[[float], Awaitable[None]]
) -> None:
    """Waits for the planned moment of early work, at most an hour: clocks may be wrong."""
    if moment is not None:
        early = moment.timestamp() - clock()
        if early > 0:
            await pause(min(early, LONGEST_HOLD_SECONDS))


def refused(refusal: Invalid) -> End:
    """The end to report instead of one that the service refused, mostly because it is too large."""
    error = TOO_LARGE if refusal.status == 413 else UNREADABLE
    return End(status=500, error=error, message=f"the result was refused: {refusal.detail}"[:1000])


async def run(declaration: Declaration[..., Any], arguments: Mapping[str, Any], execution: Execution) -> End:
    """Runs the function; returns its end. Raises only CancelledError."""
    given = declaration.parameters.fill(arguments, execution)
    try:
        return await _end(declaration.function, given)
    except Exception as error:  # whatever the function raises is the outcome of this job only
        LOG.exception("job %s failed", execution.job_id)
        text = f"{type(error).__name__}: {error}"[:1000]
        return End(status=500, error=UNEXPECTED, message=text, is_unexpected=True)


async def _end(function: Any, given: Mapping[str, Any]) -> End:
    """The end by result or JobFailed. Raises all else, also for data that JSON cannot represent."""
    try:
        return End(data=write_data(await _call(function, given)))
    except JobFailed as failure:
        return End(
            status=failure.status,
            error=failure.error,
            message=failure.message,
            data=write_data(failure.data),
            retry_after=failure.retry_after,
        )


async def _call(function: Any, given: Mapping[str, Any]) -> Any:
    """Calls a coroutine function on the loop, any other one in a thread, so that it may block."""
    if inspect.iscoroutinefunction(function):
        return await function(**given)
    result = await asyncio.to_thread(function, **given)
    return await result if inspect.isawaitable(result) else result
