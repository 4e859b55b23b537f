"""Runs a job's function, and describes its end for answers, feedback and completions."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from client_sdk.errors import Invalid, JobFailed, NotWanted
from client_sdk.target.classes import Provide, provided
from client_sdk.target.declaration import Declaration
from client_sdk.target.execution import Execution
from client_sdk.target.parameters import write_data
from client_sdk.target.reporting import FAILED, SUCCEED, AttemptReport
from client_sdk.traces import joined

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

    `is_unexpected`: the function raised another exception than JobFailed. `is_unwanted`: it
    stopped since its work is no longer awaited.
    """

    status: int = 200
    error: str | None = None
    message: str | None = None
    data: Any = None
    retry_after: float | None = None
    is_unexpected: bool = False
    is_unwanted: bool = False

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


async def run(
    declaration: Declaration[..., Any],
    arguments: Mapping[str, Any],
    execution: Execution,
    provide: Provide | None = None,
) -> End:
    """Runs the function, or an object of the class; returns the end. Raises only CancelledError."""
    given = declaration.parameters.fill(arguments, execution)
    LOG.debug("job %s begins, %s", execution.job_id, execution)
    try:
        with joined(execution.traceparent):
            end = await _end(declaration, given, provide)
        if end.error is None:
            LOG.debug("job %s succeeded, %s", execution.job_id, execution)
        else:
            LOG.warning("job %s failed, %s, with %s: %s", execution.job_id, execution, end.error, end.message)
        return end
    except NotWanted as why:
        LOG.info("job %s stops, %s: %s", execution.job_id, execution, why)
        return End(status=500, error=UNEXPECTED, message=f"NotWanted: {why}"[:1000], is_unwanted=True)
    except Exception as error:  # whatever the function raises is the outcome of this job only
        LOG.exception("job %s failed, %s", execution.job_id, execution)
        text = f"{type(error).__name__}: {error}"[:1000]
        return End(status=500, error=UNEXPECTED, message=text, is_unexpected=True)


async def _end(declaration: Declaration[..., Any], given: Mapping[str, Any], provide: Provide | None) -> End:
    """The end by result or JobFailed. Raises all else, also for data that JSON cannot represent."""
    try:
        return End(data=await _work(declaration, given, provide))
    except JobFailed as failure:
        return End(
            status=failure.status,
            error=failure.error,
            message=failure.message,
            data=write_data(failure.data),
            retry_after=failure.retry_after,
        )


async def _work(declaration: Declaration[..., Any], given: Mapping[str, Any], provide: Provide | None) -> Any:
    """The result as JSON values; a context manager that provides the object sees every exception.

    It cannot suppress one: work that failed has no result.
    """
    if declaration.job_class is None:
        return write_data(await _call(declaration.function, given))
    async with provided(declaration.job_class, provide) as made:
        try:
            return write_data(await _call(getattr(made, declaration.entry), given))
        except BaseException as error:
            failure = error
            raise
    raise failure


async def _call(function: Any, given: Mapping[str, Any]) -> Any:
    """Calls a coroutine function on the loop, any other one in a thread, so that it may block."""
    if inspect.iscoroutinefunction(function):
        return await function(**given)
    result = await asyncio.to_thread(function, **given)
    return await result if inspect.isawaitable(result) else result
