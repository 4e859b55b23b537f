"""One claimed part: held until its moment, done, retried locally, completed (SPEC section 13)."""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from client_sdk.errors import Flaw, Invalid, NotWanted, SdkError
from client_sdk.models import Completion, answers
from client_sdk.target.declaration import Declaration
from client_sdk.target.execution import Execution
from client_sdk.target.invoke import End, hold, refused, run
from client_sdk.target.parameters import WrongParameters
from client_sdk.tasks import cancel
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
    retry: LocalRetry,
    clock: Callable[[], float] = time.time,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Does a part until it is completed or no longer wanted. Raises only CancelledError."""
    doing = asyncio.create_task(_do(work, find=find, lease=lease, retry=retry, clock=clock, pause=pause))
    keeping = asyncio.create_task(lease.keep())
    try:
        await asyncio.wait([doing, keeping], return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            await _complete(lease, doing.result())
        else:
            await keeping
    except NotWanted as why:
        LOG.info("work at %s stops: %s", work.execution_id, why)
    except SdkError as error:
        LOG.warning("the end of %s could not be reported: %s", work.execution_id, error)
    finally:
        await cancel(doing, keeping)


async def _complete(lease: Lease, end: End) -> None:
    try:
        await lease.complete(complete(end))
    except Invalid as refusal:
        await lease.complete(complete(refused(refusal)))


def complete(end: End) -> Completion:
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
    clock: Callable[[], float],
    pause: Callable[[float], Awaitable[None]],
) -> End:
    headers = {name.lower(): value for name, value in work.request.headers.items()}
    job_id = headers.get("x-scheduling-job-id", "")
    declaration = find(job_id)
    if declaration is None:
        return End(status=404, error=NO_FUNCTION, message=f"this worker has no function for {job_id!r}")
    try:
        arguments = declaration.parameters.take(_read_body(work.request.body))
    except WrongParameters as wrong:
        return End(status=422, error=WRONG_PARAMETERS, message=str(wrong))
    await hold(work.scheduled_at, clock, pause)
    execution = _describe_execution(work, job_id, headers, lease)
    return await _run_with_retries(declaration, arguments, execution, retry, pause)


async def _run_with_retries(
    declaration: Declaration[..., Any],
    arguments: Mapping[str, Any],
    execution: Execution,
    retry: LocalRetry,
    pause: Callable[[float], Awaitable[None]],
) -> End:
    """The first end that is not an unexpected exception, else the last one."""
    for _ in range(retry.retries):
        end = await run(declaration, arguments, execution)
        if not end.is_unexpected:
            return end
        LOG.warning("%s is tried again in %g s: %s", execution.job_id, retry.delay_seconds, end.message)
        await pause(retry.delay_seconds)
    return await run(declaration, arguments, execution)


def _describe_execution(
    work: answers.Work, job_id: str, headers: Mapping[str, str], lease: Lease
) -> Execution:
    number = headers.get("x-scheduling-execute-number", "0")
    return Execution(
        job_id=job_id,
        execute_number=int(number) if number.isdigit() else 0,
        request_counts=work.request_counts,
        idempotency_key=headers.get("idempotency-key", ""),
        scheduled_at=work.scheduled_at,
        shard_index=work.shard_index,
        shard_total=work.shard_total,
        reporter=lease,
        loop=asyncio.get_running_loop(),
    )


def _read_body(body: Any) -> Mapping[str, Any]:
    """The parameters. Raises WrongParameters if the body is not a JSON object."""
    if isinstance(body, str):
        try:
            body = json.loads(body or "{}")
        except ValueError:
            raise _not_an_object() from None
    if body is None:
        return {}
    if not isinstance(body, Mapping):
        raise _not_an_object()
    return body


def _not_an_object() -> WrongParameters:
    return WrongParameters((Flaw("", "type", "the parameters must be a JSON object"),))
