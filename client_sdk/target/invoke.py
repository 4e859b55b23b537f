"""Runs a job's function up to its deadline, and describes its end for answers, feedback, completions."""

import asyncio
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from contextvars import copy_context
from datetime import datetime
from typing import Any

import msgspec

from client_sdk.errors import Invalid, JobFailed, NotWanted
from client_sdk.target.containment import (
    LONGEST_MESSAGE,
    PROCESS_ENDS,
    ExitContained,
    contain_exits,
    describe_error,
    readable,
)
from client_sdk.target.declaration import Declaration, Provide, provided
from client_sdk.target.execution import FAILED, SUCCEED, AttemptReport, Execution
from client_sdk.target.parameters import write_data
from client_sdk.traces import joined

LONGEST_HOLD_SECONDS = 3_600.0
"""No work is handed out earlier than this (SPEC section 2, leadSeconds)."""
LOG = logging.getLogger("client_sdk")
UNEXPECTED = "500"
"""The error code of an unexpected exception."""
INTERRUPTED = "interrupted"
"""The error code of work that was stopped because its instance stops."""
STOP_SECONDS = 5.0
"""For a function that was cancelled to end by itself."""
LONGEST_FAILURE = 4_096
"""The characters of a message that a function gives; the scheduler keeps no more."""
TOO_LARGE, UNREADABLE = "response_too_large", "invalid_result"
"""The error codes of results that the service refuses."""


class WorkEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of the work. `status` is its HTTP status, `error` None if it succeeded.

    `is_unexpected`: the function raised another exception than JobFailed or SystemExit. `is_unwanted`: it
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


def refused(refusal: Invalid) -> WorkEnd:
    """The end to report instead of one that the service refused, mostly because it is too large."""
    error = TOO_LARGE if refusal.status == 413 else UNREADABLE
    return WorkEnd(status=500, error=error, message=f"the result was refused: {refusal.detail}"[:1000])


async def run(
    declaration: Declaration[..., Any],
    arguments: Mapping[str, Any],
    execution: Execution,
    provide: Provide | None = None,
) -> WorkEnd:
    """Runs the function, or an object of the class; returns the end. Raises only CancelledError.

    Whatever the function raises is the end of this work alone. It runs in a task of its own, so that a
    cancellation from inside is told from the caller's, which ends it; one that goes on all the same is left
    after `STOP_SECONDS`.
    """
    LOG.debug("job %s begins, %s", execution.job_id, execution)
    contain_exits(asyncio.get_running_loop())
    task = asyncio.create_task(_outcome(declaration, arguments, execution, provide))
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        await _stop(task)
        if not task.done():
            LOG.warning("job %s was cancelled and runs on, %s", execution.job_id, execution)
        raise
    # A function that cancels itself and returns all the same: its task counts as cancelled.
    end, error = _ended_by(asyncio.CancelledError()) if task.cancelled() else task.result()
    with suppress(BaseException):  # a handler of the application's log that cannot show what was raised
        _log_end(execution, end, error)
    return end


async def _stop(task: "asyncio.Task[Any]") -> None:
    """Cancels the task; returns when it has ended or its time is over, however often this is cancelled."""
    task.cancel()
    loop = asyncio.get_running_loop()
    until = loop.time() + STOP_SECONDS
    while not task.done() and (left := until - loop.time()) > 0:
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task], timeout=left)


async def wait_for_thread(execution: Execution) -> None:
    """Waits for a thread that may run on after its work was cancelled, some seconds at most."""
    if execution.thread is not None:
        await asyncio.wait([execution.thread], timeout=STOP_SECONDS)


async def _outcome(
    declaration: Declaration[..., Any],
    arguments: Mapping[str, Any],
    execution: Execution,
    provide: Provide | None,
) -> tuple[WorkEnd, BaseException | None]:
    """The end, and what the function raised. Raises nothing, as its task would: SystemExit ends the loop."""
    try:
        given = declaration.parameters.fill(arguments, execution)
        with joined(execution.traceparent):
            return WorkEnd(data=await _work(declaration, given, execution, provide)), None
    except BaseException as error:  # noqa: BLE001 - it is the outcome of this job only
        return _ended_by(error)


def _ended_by(error: BaseException) -> tuple[WorkEnd, BaseException]:
    return end_by(error), error


def end_by(error: BaseException) -> WorkEnd:
    """The end of work that raised `error`."""
    try:
        if isinstance(error, NotWanted):
            text = describe_error(error)
            return WorkEnd(status=500, error=UNEXPECTED, message=text, is_unwanted=True)
        if isinstance(error, JobFailed):
            return WorkEnd(
                status=error.status,
                error=readable(str(error.error)),
                message=readable(str(error.message))[:LONGEST_FAILURE],
                data=write_data(error.data),
                retry_after=error.retry_after,
            )
    except BaseException as further:  # noqa: BLE001 - data that is no JSON, or an error class of the application's own
        text = f"{describe_error(further)}; it failed with {describe_error(error)}"
        return WorkEnd(status=500, error=UNEXPECTED, message=text[:LONGEST_MESSAGE], is_unexpected=True)
    # An end of the process is wanted: it is no fault that another try mends.
    is_unexpected = not isinstance(error, (*PROCESS_ENDS, ExitContained))
    return WorkEnd(status=500, error=UNEXPECTED, message=describe_error(error), is_unexpected=is_unexpected)


def _log_end(execution: Execution, end: WorkEnd, error: BaseException | None) -> None:
    if end.error is None:
        LOG.debug("job %s succeeded, %s", execution.job_id, execution)
    elif end.is_unwanted:
        LOG.info("job %s stops, %s: %s", execution.job_id, execution, error)
    elif end.is_unexpected or isinstance(error, (*PROCESS_ENDS, ExitContained)):
        LOG.error("job %s failed, %s", execution.job_id, execution, exc_info=error)
    else:
        LOG.warning("job %s failed, %s, with %s: %s", execution.job_id, execution, end.error, end.message)


async def _work(
    declaration: Declaration[..., Any],
    given: Mapping[str, Any],
    execution: Execution,
    provide: Provide | None,
) -> Any:
    """The result as JSON values; a context manager that provides the object sees every exception.

    It cannot suppress one: work that failed has no result.
    """
    if declaration.job_class is None:
        return await call_function(declaration.function, given, execution)
    async with provided(declaration.job_class, provide) as made:
        try:
            return await call_function(getattr(made, declaration.entry), given, execution)
        except BaseException as error:
            failure = error
            raise
    raise failure


async def call_function(function: Any, given: Mapping[str, Any], execution: Execution) -> Any:
    """The result as JSON values. A coroutine function is called on the loop, any other one in a thread.

    So that one may block, also where it is a generator and runs while its result is written.
    """
    if inspect.iscoroutinefunction(function):
        return write_data(await function(**given))
    result = await _call_in_thread(function, given, execution)
    return write_data(await result) if inspect.isawaitable(result) else result


async def _call_in_thread(function: Any, given: Mapping[str, Any], execution: Execution) -> Any:
    """The result of a function in a thread of its own, which neither waits for others nor keeps the process.

    What it raises passes no future: one cannot hold StopIteration. Cancelled, this ends at once, and the
    thread runs on until its function returns.
    """
    loop = asyncio.get_running_loop()
    execution.thread = ended = loop.create_future()
    results: list[Any] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            result = function(**given)
            results.append(result if inspect.isawaitable(result) else write_data(result))
        except BaseException as error:  # noqa: BLE001 - it is raised where the thread is waited for
            errors.append(error)
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(ended.set_result, None)

    name = f"job {getattr(function, '__name__', '')}"
    threading.Thread(target=copy_context().run, args=(work,), name=name, daemon=True).start()
    await asyncio.wait([ended])
    if errors:
        raise errors.pop()
    return results[0]


TIMEOUT = "timeout"
"""The error code of work that was not done by its deadline."""
LATE_STATUS = 500
"""The code that the scheduler itself gives to a synchronous attempt that takes too long."""


async def run_until_deadline(
    execution: Execution,
    work: Coroutine[Any, Any, WorkEnd],
    *,
    is_blocking: bool,
    clock: Callable[[], float],
    pause: Callable[[float], Awaitable[None]],
) -> WorkEnd:
    """The end of `work`, which is cancelled at the deadline of `execution`, even if that is extended.

    `is_blocking`: its function runs in a thread, which no one can stop. Afterwards `execution.is_wanted` is
    False, whatever the end: a thread that still runs sees it there.
    """
    limit = asyncio.timeout(None)
    watching = None
    if execution.deadline is not None:
        watching = asyncio.create_task(_watch(execution, limit, clock, pause))
    try:
        async with limit:
            return await work
    except TimeoutError:
        text = describe_timeout(execution, is_blocking)
        LOG.warning("job %s %s", execution.job_id, text)
        return WorkEnd(status=LATE_STATUS, error=TIMEOUT, message=text)
    finally:
        execution.is_wanted = False
        if watching is not None:
            watching.cancel()


def describe_timeout(execution: Execution, is_blocking: bool) -> str:
    """What became of work whose deadline has passed, and the remedy."""
    until = f"it was awaited until {execution.deadline}; raise timeoutSeconds if it takes so long"
    if is_blocking:
        thread = "its thread runs on: look at execution.is_wanted, or make it async"
        return f"is no longer awaited, and {thread}; {until}"
    return f"was stopped: {until}"


def is_too_late(execution: Execution, clock: Callable[[], float]) -> WorkEnd | None:
    """The end of a call that arrives after its deadline; None if it does not."""
    late = 0.0 if execution.deadline is None else clock() - execution.deadline.timestamp()
    if late <= 0:
        return None
    text = (
        f"not started: the call arrived {late:.1f} s after its X-Scheduling-Deadline {execution.deadline}; "
        "compare the clocks of this machine and of the scheduler"
    )
    LOG.warning("job %s was %s", execution.job_id, text)
    return WorkEnd(status=LATE_STATUS, error=TIMEOUT, message=text)


async def _watch(
    execution: Execution,
    limit: asyncio.Timeout,
    clock: Callable[[], float],
    pause: Callable[[float], Awaitable[None]],
) -> None:
    while execution.deadline is not None:
        left = execution.deadline.timestamp() - clock()
        if left <= 0:
            limit.reschedule(asyncio.get_running_loop().time())
            return
        await pause(left)
