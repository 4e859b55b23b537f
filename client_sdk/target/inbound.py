"""Handles the scheduler's calls: admits, holds, runs and answers them (SPEC sections 13, 14, 16)."""

import asyncio
import ipaddress
import json
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from client_sdk.client.connection import Connection
from client_sdk.errors import Invalid, NotWanted, SdkError, SignatureRefused
from client_sdk.outages import OutageLog
from client_sdk.proxy_headers import OF_PROXIES, PREFIXES_OF_PROXIES
from client_sdk.signing import Verifier
from client_sdk.target.declaration import (
    FEEDBACK_HEADER,
    SHARD_INDEX_HEADER,
    SHARD_TOTAL_HEADER,
    Declaration,
    Provide,
)
from client_sdk.target.execution import Execution, FeedbackReporter, Reporter
from client_sdk.target.in_flight import AttemptName, AttemptsInFlight
from client_sdk.target.invoke import (
    INTERRUPTED,
    LOG,
    WorkEnd,
    end_by,
    hold,
    is_too_late,
    refused,
    run,
    run_until_deadline,
)
from client_sdk.target.messages import (
    DEADLINE_HEADER,
    InboundCall,
    OutboundAnswer,
    read_moment,
    read_number,
    refuse,
)
from client_sdk.target.parameters import WrongParameters
from client_sdk.traces import TRACEPARENT

PASSED_ON = OF_PROXIES | {"origin", "sec-fetch-site"}
"""Headers of a call that a proxy or a web page makes, which may be for somebody elsewhere."""
ALONE = (
    "%s takes calls from this machine alone below %s: they are not signed. Give Service a verifier and "
    "sign for calls from elsewhere, or allow_unsigned=True where an ingress guards that port"
)
OPEN = (
    "the jobs of %s are open: allow_unsigned lets whoever reaches its port call them below %s, so let nobody "
    "but the scheduler reach it"
)
REFUSED = (
    "calls that are not signed are taken from this machine alone, directly; give Service a verifier, or "
    "allow_unsigned=True where an ingress guards this port"
)


class Admission:
    """Judges calls. Without a `verifier` those from loopback are taken, by `allow_unsigned` all.

    A call that a proxy, a sidecar or a web page passes on is none from loopback.
    """

    def __init__(self, *, verifier: Verifier | None, allow_unsigned: bool = False) -> None:
        self._verifier = verifier
        self._allow_unsigned = allow_unsigned
        self._has_warned = False

    def describe(self, name: str, prefix: str) -> None:
        """Says in the log who may call the service `name`, unless its calls are signed."""
        if self._verifier is None:
            LOG.warning(OPEN if self._allow_unsigned else ALONE, name, prefix)

    def admit(self, call: InboundCall) -> str:
        """The id under which the call is signed; empty: it need not be. Raises SignatureRefused."""
        if self._verifier is not None:
            return self._verifier.accept(call.headers, call.body)
        if self._allow_unsigned or is_direct(call):
            return ""
        if not self._has_warned:
            self._has_warned = True
            LOG.warning("a call from %s was refused: %s", call.peer or "an unknown address", REFUSED)
        raise SignatureRefused(REFUSED)


def is_direct(call: InboundCall) -> bool:
    """Whether a program of this machine has made the call, as far as one can tell."""
    return is_loopback(call.peer) and not any(
        name in PASSED_ON or name.startswith(PREFIXES_OF_PROXIES) for name in call.headers
    )


def is_loopback(peer: str) -> bool:
    """Whether this is an address of the machine itself."""
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


STOPPED = WorkEnd(status=503, error=INTERRUPTED, message="the instance was stopped before the work was done")
CALLER_GONE = "the scheduler closed the connection: the execution was cancelled, or is out of time"
LAST_REPORT_SECONDS = 5.0
"""For the report of work that was stopped."""


class InboundCalls:
    """The calls of one instance's jobs."""

    def __init__(
        self,
        *,
        declarations: Callable[[], Mapping[str, Declaration[..., Any]]],
        connection: Connection,
        admission: Admission,
        provide: Provide | None = None,
        clock: Callable[[], float] = time.time,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._declarations = declarations
        self._connection = connection
        self._admission = admission
        self._provide = provide
        self._clock = clock
        self._pause = pause
        self._outages = OutageLog()
        self.running = AttemptsInFlight()
        self.is_draining = False
        self.is_stopping = False

    async def take(
        self, job_id: str, call: InboundCall, gone: Callable[[], Awaitable[Any]] | None = None
    ) -> OutboundAnswer:
        """Handles one call of a job. A synchronous one is stopped once `gone` returns: its caller left."""
        declaration = self._declarations().get(job_id)
        signed_id = self._admit(call)
        if isinstance(signed_id, OutboundAnswer):
            return signed_id
        refusal = self._check(job_id, declaration)
        if refusal is not None:
            return refusal
        assert declaration is not None
        try:
            arguments = declaration.parameters.read(call.body)
            execution = self._describe_execution(job_id, declaration, call, signed_id)
        except WrongParameters as wrong:
            return refuse(422, f"the body does not fit {job_id}: {wrong}", flaws=wrong.flaws)
        except ValueError as error:
            return refuse(422, str(error))
        except BaseException as error:  # noqa: BLE001 - of a validator among the annotations
            LOG.error("job %s failed before it began", job_id, exc_info=error)
            return answer_end(end_by(error))
        late = is_too_late(execution, self._clock)
        if late is not None:
            return answer_end(late)
        name = AttemptName(job_id, execution.request_counts, execution.idempotency_key)
        if declaration.is_asynchronous:
            self.running.start(name, execution, lambda: self._report(declaration, arguments, execution))
            return OutboundAnswer(202, b'{"status":""}')
        running = self.running.start(name, execution, lambda: self._work(declaration, arguments, execution))
        if not await self.running.wait(running, gone or asyncio.Event().wait):
            LOG.info("job %s stops, %s: %s", job_id, execution, CALLER_GONE)
        return answer_end(_end_of(running.task))

    def cancel(self, job_id: str, call: InboundCall) -> OutboundAnswer:
        """Handles `cancelUrl`: stops the attempt that the headers name, if it runs here."""
        signed_id = self._admit(call)
        if isinstance(signed_id, OutboundAnswer):
            return signed_id
        try:
            counts = read_number(call.headers, "x-scheduling-request-counts")
        except ValueError as error:
            return refuse(422, str(error))
        return OutboundAnswer(200, json.dumps({"stopped": self.running.cancel(job_id, counts)}).encode())

    async def drain(self, grace: float) -> None:
        """Refuses new work; returns when running work is done, or was stopped after `grace` s."""
        self.is_draining = True
        try:
            async with asyncio.timeout(grace):
                await self.running.finish(math.inf)
        except TimeoutError:
            self.is_stopping = True
            await self.running.finish(0)

    def _admit(self, call: InboundCall) -> str | OutboundAnswer:
        """The id under which a call is signed, which may be empty, or why it is refused."""
        try:
            return self._admission.admit(call)
        except SignatureRefused as refusal:
            return refuse(401, str(refusal))

    def _check(self, job_id: str, declaration: Declaration[..., Any] | None) -> OutboundAnswer | None:
        """The refusal of a call; None if it is accepted. A draining instance refuses all."""
        if self.is_draining:
            return refuse(503, "this instance is stopping; call another one", X_Instance_State="draining")
        if declaration is None:
            return refuse(410, f"there is no job {job_id} here any more", X_Job_State="gone")
        return None

    def _describe_execution(
        self, job_id: str, declaration: Declaration[..., Any], call: InboundCall, signed_id: str
    ) -> Execution:
        """The execution that the headers describe; its key is what was signed, if anything was.

        Raises ValueError for invalid headers.
        """
        headers = call.headers
        return Execution(
            job_id=job_id,
            execute_number=read_number(headers, "x-scheduling-execute-number"),
            request_counts=read_number(headers, "x-scheduling-request-counts"),
            idempotency_key=signed_id or headers.get("idempotency-key", ""),
            scheduled_at=read_moment(headers, "X-Scheduled-At"),
            deadline=read_moment(headers, DEADLINE_HEADER),
            traceparent=headers.get(TRACEPARENT, ""),
            shard_index=_read_shard(headers, SHARD_INDEX_HEADER),
            shard_total=_read_shard(headers, SHARD_TOTAL_HEADER),
            reporter=self._reporter(declaration, headers),
            outages=self._outages,
            loop=asyncio.get_running_loop(),
        )

    def _reporter(self, declaration: Declaration[..., Any], headers: Mapping[str, str]) -> Reporter | None:
        """Sends its reports; None: the outcome of a synchronous call is its answer."""
        if not declaration.is_asynchronous:
            return None
        url = headers.get(FEEDBACK_HEADER.lower())
        if not url:
            raise ValueError(f"an asynchronous job reports by feedback: send {FEEDBACK_HEADER}")
        return FeedbackReporter(
            connection=self._connection, url=url, traceparent=headers.get(TRACEPARENT, "")
        )

    async def _work(
        self, declaration: Declaration[..., Any], arguments: Mapping[str, Any], execution: Execution
    ) -> WorkEnd:
        work = self._do(declaration, arguments, execution)
        return await run_until_deadline(
            execution, work, is_blocking=declaration.is_blocking, clock=self._clock, pause=self._pause
        )

    async def _do(
        self, declaration: Declaration[..., Any], arguments: Mapping[str, Any], execution: Execution
    ) -> WorkEnd:
        await self.running.wait_for_older(execution, declaration.most_at_once)
        await hold(execution.scheduled_at, self._clock, self._pause)
        return await run(declaration, arguments, execution, self._provide)

    async def _report(
        self, declaration: Declaration[..., Any], arguments: Mapping[str, Any], execution: Execution
    ) -> None:
        """Does the work and reports its end; cancelled work ends without a report."""
        try:
            end = await self._work(declaration, arguments, execution)
        except asyncio.CancelledError:
            if not self.is_stopping:
                return
            end = STOPPED
        try:
            async with asyncio.timeout(LAST_REPORT_SECONDS if self.is_stopping else None):
                await _conclude(execution, end)
        except NotWanted as why:
            level = logging.DEBUG if end.is_unwanted else logging.INFO
            LOG.log(level, "the end of %s is not needed any more: %s", execution.job_id, why)
        except (SdkError, TimeoutError) as error:
            LOG.error("the end of %s could not be reported: %s", execution.job_id, error)


def answer_end(end: WorkEnd) -> OutboundAnswer:
    """The answer of a synchronous call."""
    if end.error is None:
        return OutboundAnswer(200, json.dumps(end.data).encode())
    headers = () if end.retry_after is None else (("retry-after", str(math.ceil(end.retry_after))),)
    return OutboundAnswer(end.status, json.dumps(end.report.wire()).encode(), headers)


async def _conclude(execution: Execution, end: WorkEnd) -> None:
    try:
        await execution.conclude(end.report)
    except Invalid as refusal:
        await execution.conclude(refused(refusal).report)


def _end_of(task: "asyncio.Task[WorkEnd]") -> WorkEnd:
    """The end of work; of what was stopped, or is about to, nobody waits for more."""
    return STOPPED if not task.done() or task.cancelled() else task.result()


def _read_shard(headers: Mapping[str, str], name: str) -> int | None:
    return read_number(headers, name.lower()) if headers.get(name.lower()) else None
