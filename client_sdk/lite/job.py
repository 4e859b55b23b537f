"""`LiteJob`: `decide` with a loop in memory and httpx (SPEC section 16)."""

import asyncio
import json
import logging
import secrets
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Self

import httpx
import msgspec

from client_sdk.client.connection import write_json
from client_sdk.client.jobs import Definition, write_params
from client_sdk.errors import Flaw, Invalid, SdkError
from client_sdk.lite.definition import compile_lite
from client_sdk.lite.sender import LiteSender
from client_sdk.loops import StartedTasks, cancel
from client_sdk.signing import read_named
from scheduler_service.domain.effects import Abandon, Call, Delivery, Effect, Inform, Notify, ReportPause
from scheduler_service.domain.execution import TERMINAL
from scheduler_service.domain.moments import SECOND, Now
from scheduler_service.domain.records import ExecutionRecord, Record, StepEnded
from scheduler_service.domain.replies import Refusal, Reply, Started
from scheduler_service.domain.secret_places import hide_places
from scheduler_service.domain.turn_events import (
    AlarmRang,
    CallEnded,
    CancelRequested,
    Created,
    Event,
    FeedbackArrived,
    Triggered,
)
from scheduler_service.domain.wire import Holder, OutboundRequest, Token
from scheduler_service.engine.decide import decide
from scheduler_service.engine.decision import Job
from scheduler_service.engine.job_summary import due
from scheduler_service.engine.notification_retry import after_try, may_be_superseded
from scheduler_service.engine.program import Surroundings
from scheduler_service.language.json_values import show_text

LOG = logging.getLogger("client_sdk")
REVISION = 1
MOST_WAITING = 100
"""So many notifications of an execution may wait for their first try, as in a service."""
CANCEL_SECONDS = 5.0
"""So long the end of a job waits for calls of `cancelUrl`, whose answers count for nothing."""


class LiteStep(msgspec.Struct, frozen=True):
    """A request that was sent, and what came back; `body` is JSON if it parses as such, else text."""

    index: int
    url: str
    status: int | None
    body: Any
    error: str | None


class LiteExecution(msgspec.Struct, frozen=True):
    """How an execution ended. `steps` are those of all its attempts, in order."""

    execute_number: int
    state: str
    error: str | None
    failure_type: str | None
    attempt_count: int
    steps: tuple[LiteStep, ...]

    @property
    def response(self) -> Any:
        """The body of the last request that was answered; None where none was."""
        answered = [step.body for step in self.steps if step.status is not None]
        return answered[-1] if answered else None


class LiteJob:
    """A job in this process: its chain, templates, checks, retries and notifications work as in a service.

    `timer`, `qos` and all else that needs a server are refused. `services` are the addresses behind
    `service://name`, `environment` the variables of templates. Nothing outlives the process. Use it in
    `async with`: leaving it calls each `cancelUrl`, and waits for notifications that are still retried. What
    names a feedback URL, or waits for feedback without a limit, is refused, unless the caller serves it:
    `feedback_url` is then the base of feedback URLs, and what is posted there must be passed to `feedback`.
    `ca` is a file of certificates that are trusted, beside those of the system. `secrets`: what `sign` and
    `${secrets.NAME}` name, each a text, or two while one replaces the other. `warnings` are about its
    definition; they are logged, too. Raises DefinitionRefused.
    """

    def __init__(
        self,
        definition: Definition,
        *,
        services: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        follow: Sequence[str] = (),
        feedback_url: str | None = None,
        http_timeout_seconds: float = 60.0,
        response_bytes: int = 1 << 20,
        notification_retries: int = 3,
        notification_interval_seconds: float = 20.0,
        transport: httpx.AsyncBaseTransport | None = None,
        ca: str | None = None,
        secrets: Mapping[str, str | Sequence[str]] | None = None,
    ) -> None:
        values = {
            name: (one,) if isinstance(one, str) else tuple(one) for name, one in (secrets or {}).items()
        }
        surroundings = Surroundings(
            internal_url=feedback_url or "",
            external_url=feedback_url or "",
            environment=dict(environment or {}),
            http_timeout=round(http_timeout_seconds * SECOND),
            response_bytes=response_bytes,
            follow=frozenset(follow),
            queues=False,
            judge_secret=lambda _, name: judge_secret(name, values.get(name, ())),
        )
        compiled = compile_lite(
            definition, surroundings, services or {}, takes_feedback=feedback_url is not None
        )
        self.warnings = tuple(Flaw(one.pointer, one.code, one.message) for one in compiled.warnings)
        for warning in self.warnings:
            LOG.warning("%s: %s", warning.pointer, warning.message)
        self._sender = LiteSender(
            response_bytes=response_bytes, transport=transport, ca=ca, secrets=values, environment=environment
        )
        self._notifications = LiteNotifications(
            sender=self._sender, retries=notification_retries, interval=notification_interval_seconds
        )
        self._job = Job(None, {REVISION: compiled.program}, Holder("lite", uuid.uuid4().hex))
        self._calls: dict[Token, asyncio.Task[None]] = {}
        self._informs = StartedTasks()
        self._steps: dict[int, list[LiteStep]] = {}
        self._ends: dict[int, asyncio.Future[LiteExecution]] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Cancels executions; returns when all notifications are delivered or given up.

        Each `cancelUrl` is called before, for `CANCEL_SECONDS` at most. A job that is closed runs no more.
        """
        self._is_closed = True
        for number in sorted(self._ends, reverse=True):  # the end of one would begin another that waits
            self._take(CancelRequested(number, "closed"))
        if self._alarm is not None:
            self._alarm.cancel()
        await cancel(*self._calls.values())
        await self._informs.wait_for_all(CANCEL_SECONDS)
        await self._informs.cancel()
        await self._notifications.finish()
        await self._sender.close()

    async def run(self, params: Mapping[str, Any] | None = None) -> LiteExecution:
        """One execution, from its first request to its end.

        Raises Invalid: `paramsSchema` refuses `params`; SdkError: the job is closed.

        Overlapping executions of one job follow its `overlapPolicy`, as in a service. Cancelling the call
        cancels the execution.
        """
        self._check_open()
        if self._job.document is None:
            self._take(Created(uid=uuid.uuid4().hex, key=secrets.token_bytes(32), revision=REVISION))
        text = write_json(write_params(params))
        reply = self._take(Triggered(params=text))
        _check(reply)
        assert isinstance(reply, Started)
        number = reply.execute_number
        try:
            return await self._end_of(number)
        except asyncio.CancelledError:
            self._take(CancelRequested(number, "the caller stopped waiting"))
            raise
        finally:
            self._ends.pop(number, None)

    async def feedback(self, request_counts: int, token: str, report: Mapping[str, Any]) -> None:
        """Takes what the target posted to its feedback URL.

        Raises Invalid: it does not count; SdkError: the job is closed.
        """
        self._check_open()
        _check(self._take(FeedbackArrived(request_counts, token, dict(report))))

    def _check_open(self) -> None:
        if self._is_closed:
            raise SdkError("the job is closed, as its block was left: run it inside, or make a new LiteJob")

    def _end_of(self, number: int) -> "asyncio.Future[LiteExecution]":
        return self._ends.setdefault(number, asyncio.get_running_loop().create_future())

    def _take(self, event: Event) -> Reply:
        """One turn: decide, store, act, and set the alarm for the next due moment."""
        decision = decide(self._job, event, read_clock())
        self._job = msgspec.structs.replace(self._job, document=decision.document)
        for record in decision.records:
            self._note(record)
        for effect in decision.effects:
            self._act(effect)
        self._set_alarm()
        return decision.reply

    def _note(self, record: Record) -> None:
        match record:
            case StepEnded(execute_number=number):
                self._steps.setdefault(number, []).append(_show(record))
            case ExecutionRecord(execute_number=number, state=state) if state in TERMINAL:
                end = self._end_of(number)
                if not end.done():
                    end.set_result(_conclude(record, tuple(self._steps.pop(number, ()))))

    def _act(self, effect: Effect) -> None:
        match effect:
            case Call(token=token, request=request):
                self._calls[token] = asyncio.create_task(self._call(token, request))
            case Abandon(token=token):
                if (task := self._calls.pop(token, None)) is not None:
                    task.cancel()
            case Inform(request=request):
                self._informs.start(self._sender.send(request))
            case Notify(delivery=delivery):
                self._notifications.send(delivery)
            case ReportPause():
                pass  # its target does not know the job: nothing fires here that could be paused
            case _:
                raise AssertionError(f"unexpected effect in a job without a server: {effect!r}")

    async def _call(self, token: Token, request: OutboundRequest) -> None:
        outcome = await self._sender.send(request)
        if self._calls.pop(token, None) is not None:
            self._take(CallEnded(token, outcome))

    def _set_alarm(self) -> None:
        """Sets the alarm for the next due moment."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        now, at = read_clock(), due(self._job)
        waits = [at.wall - now.wall] if at.wall is not None else []
        waits += [at.steady - now.steady] if at.steady is not None else []
        if waits:
            wait = max(min(waits), 0) / SECOND
            self._alarm = asyncio.get_running_loop().call_later(wait, self._take, AlarmRang())


def judge_secret(name: str, secrets: Sequence[str]) -> str | None:
    """Why these secrets cannot sign, or None."""
    try:
        read_named(name, secrets)
    except ValueError as why:
        return str(why)
    return None


def _check(reply: Reply) -> None:
    if isinstance(reply, Refusal):
        flaw = Flaw(reply.pointer, reply.code.value, reply.message)
        raise Invalid(422, reply.message, errors=(flaw,))


def _show(record: StepEnded) -> LiteStep:
    exchange = record.exchange
    body = exchange.response_body
    return LiteStep(record.index, exchange.url, exchange.status, _read(body), record.error)


def _read(body: bytes | None) -> Any:
    if body is None:
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return show_text(body)


def _conclude(record: ExecutionRecord, steps: tuple[LiteStep, ...]) -> LiteExecution:
    return LiteExecution(
        execute_number=record.execute_number,
        state=record.state.value,
        error=record.error,
        failure_type=None if record.failure_type is None else record.failure_type.value,
        attempt_count=record.attempt_count,
        steps=steps,
    )


class LiteNotifications:
    """Sends notifications as a service does (SPEC section 7), but for the outbox.

    First tries of one execution go in the order of its events, later ones may overtake; executions do not
    wait for each other. Of more than `MOST_WAITING` of one execution intermediate ones are dropped.
    """

    def __init__(
        self,
        *,
        sender: LiteSender,
        retries: int,
        interval: float,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._sender = sender
        self._retries = retries
        self._interval = round(interval * SECOND)
        self._pause = pause
        self._tasks = StartedTasks()
        self._untried: dict[int, list[Delivery]] = {}

    def send(self, delivery: Delivery) -> None:
        """Sends a notification after those of its execution before it."""
        number = delivery.execute_number
        untried = self._untried.get(number)
        if untried is None:
            self._untried[number] = [delivery]
            self._tasks.start(self._try_in_order(number))
            return
        untried.append(delivery)
        if len(untried) > MOST_WAITING:
            superfluous = next((one for one in untried if may_be_superseded(one)), None)
            if superfluous is not None:
                untried.remove(superfluous)
                _log_loss(superfluous, "superseded")

    async def finish(self) -> None:
        """Returns when all notifications are delivered or given up."""
        await self._tasks.wait_for_all()

    async def _try_in_order(self, number: int) -> None:
        untried = self._untried[number]
        while untried:
            self._tasks.start(self._retry(await self._try(untried.pop(0))))
        del self._untried[number]

    async def _retry(self, delivery: Delivery) -> None:
        while delivery.due is not None:
            await self._pause((delivery.due - read_clock().steady) / SECOND)
            delivery = await self._try(delivery)
        if delivery.state != "delivered":
            _log_loss(delivery, "given up")

    async def _try(self, delivery: Delivery) -> Delivery:
        outcome = await self._sender.send(delivery.request)
        return after_try(delivery, outcome, read_clock(), retries=self._retries, interval=self._interval)


def _log_loss(delivery: Delivery, how: str) -> None:
    LOG.warning("notification %s to %s was %s", delivery.event, hide_places(delivery.request).url, how)


def read_clock() -> Now:
    """The present moment on both clocks."""
    return Now(wall=time.time_ns() // 1_000_000, steady=time.monotonic_ns() // 1_000_000)
