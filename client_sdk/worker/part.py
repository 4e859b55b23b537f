"""One claimed part: held until its moment, done, retried locally, completed (SPEC section 13)."""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from client_sdk.errors import Flaw, Invalid, NotWanted, SdkError
from client_sdk.loops import cancel
from client_sdk.models import Completion, answers
from client_sdk.target.containment import LONGEST_MESSAGE, readable
from client_sdk.target.declaration import Declaration, Provide
from client_sdk.target.execution import Execution
from client_sdk.target.invoke import WorkEnd, end_by, hold, refused, run, wait_for_thread
from client_sdk.target.messages import DEADLINE_HEADER, read_moment, read_number
from client_sdk.target.parameters import WrongParameters
from client_sdk.traces import TRACEPARENT
from client_sdk.worker.lease import Lease

LOG = logging.getLogger("client_sdk")
NO_FUNCTION = "no_function"
"""The error code of a part for which this worker has no function."""
WRONG_PARAMETERS = "422"


class LocalRetry(msgspec.Struct, frozen=True, kw_only=True):
    """How often an unexpected exception is retried by the worker, under the same lease."""

    retries: int = 3
    delay_seconds: float = 10.0


async def do_part(
    work: answers.Work,
    *,
    find: Callable[[str], Declaration[..., Any] | None],
    lease: Lease,
    retry: LocalRetry | None = None,
    provide: Provide | None = None,
    clock: Callable[[], float] = time.time,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Does a part until it is completed or no longer wanted. Raises only CancelledError.

    `retry` None: as the part says.
    """
    retry = retry or read_retry(work)
    errors: list[str] = []
    doing = asyncio.create_task(
        _do(
            work,
            find=find,
            lease=lease,
            retry=retry,
            provide=provide,
            clock=clock,
            pause=pause,
            errors=errors,
        )
    )
    keeping = asyncio.create_task(lease.keep())
    try:
        await asyncio.wait([doing, keeping], return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            await _report(work, lease, doing.result())
        else:
            await keeping
    except NotWanted as why:
        deadline = read_deadline(work)
        is_late = deadline is not None and clock() >= deadline.timestamp()
        reason = "it ran over timeoutSeconds" if is_late else str(why)
        reason += f"; its last error: {errors[-1]}" if errors else ""
        LOG.info("job %s stops, execution %s: %s", _read_job_id(work), work.execution_id, reason)
    except SdkError as error:
        LOG.warning("the end of %s could not be reported: %s", work.execution_id, error)
    finally:
        await cancel(doing, keeping)


async def _report(work: answers.Work, lease: Lease, end: WorkEnd) -> None:
    try:
        await _complete(lease, end)
    except NotWanted as why:
        LOG.warning("the end of %s had no effect: %s", work.execution_id, why)


async def _complete(lease: Lease, end: WorkEnd) -> None:
    try:
        await lease.complete(complete(end))
    except Invalid as refusal:
        await lease.complete(complete(refused(refusal)))


def complete(end: WorkEnd) -> Completion:
    """The completion for an end of the work."""
    if end.error is None:
        return Completion(status="succeed", data=end.data)
    return Completion(status="failed", error=end.error, message=end.message, data=end.data)


async def _do(
    work: answers.Work,
    *,
    find: Callable[[str], Declaration[..., Any] | None],
    lease: Lease,
    retry: LocalRetry,
    provide: Provide | None,
    clock: Callable[[], float],
    pause: Callable[[float], Awaitable[None]],
    errors: list[str],
) -> WorkEnd:
    """The end of the work; what is tried again is noted in `errors`."""
    headers = {name.lower(): value for name, value in work.request.headers.items()}
    job_id = _read_job_id(work)
    declaration = find(job_id)
    if declaration is None:
        return WorkEnd(status=404, error=NO_FUNCTION, message=f"this worker has no function for {job_id!r}")
    try:
        arguments = declaration.parameters.take(_read_body(work.request.body))
    except WrongParameters as wrong:
        return WorkEnd(status=422, error=WRONG_PARAMETERS, message=readable(str(wrong)))
    except BaseException as error:  # noqa: BLE001 - of a validator among the annotations
        return end_by(error)
    await hold(work.scheduled_at, clock, pause)
    execution = _describe_execution(work, job_id, headers, lease)

    async def run_once() -> WorkEnd:
        return await run(declaration, arguments, execution, provide)

    try:
        return await _run_with_retries(run_once, execution.job_id, retry, pause, errors)
    finally:
        execution.is_wanted = False  # a thread that still runs sees it there
        await wait_for_thread(execution)


def read_retry(work: answers.Work) -> LocalRetry:
    """What the step says of unexpected exceptions; a queue of an earlier version does not say it."""
    retries, delay = work.max_unexpected_retries, work.unexpected_retry_delay_seconds
    if retries is None or delay is None:
        return LocalRetry()
    return LocalRetry(retries=retries, delay_seconds=delay)


async def _run_with_retries(
    run_once: Callable[[], Awaitable[WorkEnd]],
    job_id: str,
    retry: LocalRetry,
    pause: Callable[[float], Awaitable[None]],
    errors: list[str],
) -> WorkEnd:
    """The first end that is not an unexpected exception, else the last one; its message counts the tries."""
    tries = 1
    while True:
        end = await run_once()
        if not end.is_unexpected:
            return end
        if tries > retry.retries:
            return end if tries == 1 else _count_tries(end, tries)
        errors.append(end.message or "")
        LOG.warning(
            "%s is tried again in %g s (try %d of %d failed): %s",
            job_id, retry.delay_seconds, tries, retry.retries + 1, end.message,
        )  # fmt: skip
        await pause(retry.delay_seconds)
        tries += 1


def _count_tries(end: WorkEnd, tries: int) -> WorkEnd:
    counted = f" (tried {tries} times)"
    message = f"{(end.message or '')[: LONGEST_MESSAGE - len(counted)]}{counted}"
    return msgspec.structs.replace(end, message=message)


def _describe_execution(
    work: answers.Work, job_id: str, headers: Mapping[str, str], lease: Lease
) -> Execution:
    try:
        number = read_number(headers, "x-scheduling-execute-number")
    except ValueError:
        number = 0
    return Execution(
        job_id=job_id,
        execute_number=number,
        request_counts=work.request_counts,
        idempotency_key=headers.get("idempotency-key", ""),
        scheduled_at=work.scheduled_at,
        shard_index=work.shard_index,
        shard_total=work.shard_total,
        deadline=read_deadline(work),
        traceparent=headers.get(TRACEPARENT, ""),
        reporter=lease,
        outages=lease.outages,
        loop=asyncio.get_running_loop(),
    )


def _read_job_id(work: answers.Work) -> str:
    headers = {name.lower(): value for name, value in work.request.headers.items()}
    return headers.get("x-scheduling-job-id", "")


def read_deadline(work: answers.Work) -> datetime | None:
    """Until when the part is awaited; None: the queue does not say so."""
    headers = {name.lower(): value for name, value in work.request.headers.items()}
    try:
        return read_moment(headers, DEADLINE_HEADER)
    except ValueError:
        return None


def _read_body(body: Any) -> Mapping[str, Any]:
    """The parameters. Raises WrongParameters if the body is not a JSON object."""
    if isinstance(body, str):
        try:
            body = json.loads(body or "{}")
        except (ValueError, RecursionError):
            raise _not_an_object() from None
    if body is None:
        return {}
    if not isinstance(body, Mapping):
        raise _not_an_object()
    return body


def _not_an_object() -> WrongParameters:
    return WrongParameters((Flaw("", "type", "the parameters must be a JSON object"),))
