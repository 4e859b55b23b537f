"""Ends work that runs longer than it is awaited, `X-Scheduling-Deadline` (SPEC section 13)."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from client_sdk.target.execution import Execution
from client_sdk.target.invoke import LOG, WorkEnd

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
