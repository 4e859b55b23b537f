"""Runs a job's function, and says how it ended in a form that every kind of caller can tell on."""

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

LONGEST_HOLD = 3_600.0
"""In seconds. No work is handed out earlier than this (SPEC section 2, leadSeconds)."""
LOG = logging.getLogger("client_sdk")
BROKEN = "500"
"""The code of an exception that the function did not mean."""
INTERRUPTED = "interrupted"
"""The code of work that was stopped because its instance stops."""
TOO_LARGE, UNREADABLE = "response_too_large", "invalid_result"
"""The codes of results that the service refuses."""


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How the work ended. `status` is the HTTP status that says so, `error` None where it succeeded.

    `is_unexpected`: by an exception that the function did not mean.
    """

    status: int = 200
    error: str | None = None
    message: str | None = None
    data: Any = None
    retry_after: float | None = None
    is_unexpected: bool = False

    @property
    def report(self) -> AttemptReport:
        """The end as a verdict by feedback."""
        said = SUCCEED if self.error is None else FAILED
        return AttemptReport(status=said, error=self.error, message=self.message, data=self.data)


async def hold(
    moment: datetime | None, clock: Callable[[], float], pause: Callable[[float], Awaitable[None]]
) -> None:
    """Early work waits for its moment, but no longer than an hour: clocks may be wrong."""
    if moment is not None:
        early = moment.timestamp() - clock()
        if early > 0:
            await pause(min(early, LONGEST_HOLD))


def refused(refusal: Invalid) -> End:
    """What is told in place of an end that the service does not take: too large, most of all."""
    error = TOO_LARGE if refusal.status == 413 else UNREADABLE
    return End(status=500, error=error, message=f"the result was refused: {refusal.detail}"[:1000])


async def run(declaration: Declaration[..., Any], arguments: Mapping[str, Any], execution: Execution) -> End:
    """How the function ended. Raises nothing but CancelledError: it is stopped."""
    given = declaration.parameters.fill(arguments, execution)
    try:
        return await _end(declaration.function, given)
    except Exception as error:  # whatever it is, it is the outcome of this job and of nothing else
        LOG.exception("job %s failed", execution.job_id)
        text = f"{type(error).__name__}: {error}"[:1000]
        return End(status=500, error=BROKEN, message=text, is_unexpected=True)


async def _end(function: Any, given: Mapping[str, Any]) -> End:
    """The end that the function meant. Raises whatever it did not mean, data that is no JSON too."""
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
    """A coroutine function here, any other one in a thread, so that it may block."""
    if inspect.iscoroutinefunction(function):
        return await function(**given)
    result = await asyncio.to_thread(function, **given)
    return await result if inspect.isawaitable(result) else result
