"""The blocking client: the same calls, run on an event loop in a thread of its own."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx
from pydantic import PrivateAttr

from client_sdk.client.bulk import BulkWork
from client_sdk.client.calendars import Calendars
from client_sdk.client.call_retries import Patience
from client_sdk.client.client import DEFAULT_URL, Client
from client_sdk.client.executions import Deliveries, Executions
from client_sdk.client.jobs import Jobs
from client_sdk.client.keys import Keys, Secrets
from client_sdk.client.queues import Queues
from client_sdk.client.results import SomeExecution, Started
from client_sdk.client.scheduler import Scheduler
from client_sdk.client.services import Services
from client_sdk.loops import LoopThread
from client_sdk.models import answers

P = ParamSpec("P")
R = TypeVar("R")


class _BlockingGroup:
    """One group of calls: the async `group`, and the loop on which it runs."""

    def __init__(self, group: Any, run: LoopThread) -> None:
        self._group = group
        self._loop = run


def _call(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[_BlockingGroup, P], R]:
    """`method`, blocking until it is done."""

    def call(self: _BlockingGroup, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._loop.run(method(self._group, *args, **kwargs))

    call.__doc__, call.__name__ = method.__doc__, method.__name__
    return call


def _iterate(
    method: Callable[Concatenate[Any, P], AsyncIterator[R]],
) -> Callable[Concatenate[_BlockingGroup, P], Iterator[R]]:
    """`method`, fetching items as they are consumed."""

    def iterate(self: _BlockingGroup, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        items = method(self._group, *args, **kwargs)
        while (item := self._loop.run(_next(items))) is not None:
            yield item

    iterate.__doc__, iterate.__name__ = method.__doc__, method.__name__
    return iterate


class BlockingStarted(answers.Triggered):
    """`Started`, blocking."""

    _wait: Callable[[float | None], Any] = PrivateAttr()

    def result(self, *, timeout: float | None = None) -> Any:
        """The value of `executions.result`: JSON, a text or bytes. Raises as that."""
        return self._wait(timeout)


def _start(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, Started]],
) -> Callable[Concatenate[_BlockingGroup, P], BlockingStarted]:
    """`method`, blocking until the execution is accepted."""

    def call(self: _BlockingGroup, /, *args: P.args, **kwargs: P.kwargs) -> BlockingStarted:
        started, run = self._loop.run(method(self._group, *args, **kwargs)), self._loop.run
        known = BlockingStarted.model_validate(started.model_dump(by_alias=True))
        known._wait = lambda timeout: run(started.result(timeout=timeout))
        return known

    call.__doc__, call.__name__ = method.__doc__, method.__name__
    return call


class BlockingJobs(_BlockingGroup):
    """`Jobs`, blocking."""

    create = _call(Jobs.create)
    create_many = _call(Jobs.create_many)
    compare = _call(Jobs.compare)
    get = _call(Jobs.get)
    update = _call(Jobs.update)
    pause = _call(Jobs.pause)
    resume = _call(Jobs.resume)
    disable = _call(Jobs.disable)
    enable = _call(Jobs.enable)
    destroy = _call(Jobs.destroy)
    trigger = _start(Jobs.trigger)
    backfill = _call(Jobs.backfill)
    list = _iterate(Jobs.list)
    counts = _call(Jobs.counts)
    executions = _iterate(Jobs.executions)
    outcomes = _call(Jobs.outcomes)
    firings = _iterate(Jobs.firings)
    revisions = _iterate(Jobs.revisions)
    next = _call(Jobs.next)
    retry_plan = _call(Jobs.retry_plan)
    statistics = _call(Jobs.statistics)


class BlockingExecutions(_BlockingGroup):
    """`Executions`, blocking."""

    get = _call(Executions.get)
    wait_for = _call(Executions.wait_for)
    result = _call(Executions.result)
    list = _iterate(Executions.list)
    counts = _call(Executions.counts)
    series = _call(Executions.series)
    log = _iterate(Executions.log)
    cancel = _call(Executions.cancel)
    release = _call(Executions.release)
    replay = _start(Executions.replay)


class BlockingBulkWork(_BlockingGroup):
    """`BulkWork`, blocking."""

    jobs = _call(BulkWork.jobs)
    executions = _call(BulkWork.executions)
    get = _call(BulkWork.get)
    cancel = _call(BulkWork.cancel)
    wait_for = _call(BulkWork.wait_for)


class BlockingServices(_BlockingGroup):
    """`Services`, blocking."""

    put = _call(Services.put)
    get = _call(Services.get)
    remove = _call(Services.remove)
    pause = _call(Services.pause)
    resume = _call(Services.resume)
    list = _iterate(Services.list)
    drift = _iterate(Services.drift)
    register = _call(Services.register)
    heartbeat = _call(Services.heartbeat)
    deregister = _call(Services.deregister)


class BlockingKeys(_BlockingGroup):
    """`Keys`, blocking."""

    create = _call(Keys.create)
    list = _iterate(Keys.list)
    get = _call(Keys.get)
    revoke = _call(Keys.revoke)
    rotate = _call(Keys.rotate)
    who_am_i = _call(Keys.who_am_i)


class BlockingSecrets(_BlockingGroup):
    """`Secrets`, blocking."""

    set = _call(Secrets.set)
    list = _call(Secrets.list)
    delete = _call(Secrets.delete)


class BlockingCalendars(_BlockingGroup):
    """`Calendars`, blocking."""

    put = _call(Calendars.put)
    list = _iterate(Calendars.list)
    get = _call(Calendars.get)
    delete = _call(Calendars.delete)
    preview = _call(Calendars.preview)
    changes = _iterate(Calendars.changes)
    read_dates = _call(Calendars.read_dates)


class BlockingQueues(_BlockingGroup):
    """`Queues`, blocking."""

    list = _iterate(Queues.list)
    counts = _call(Queues.counts)
    get = _call(Queues.get)
    held = _iterate(Queues.held)
    pause = _call(Queues.pause)
    resume = _call(Queues.resume)
    free = _call(Queues.free)
    claim = _call(Queues.claim)
    renew = _call(Queues.renew)
    complete = _call(Queues.complete)


class BlockingDeliveries(_BlockingGroup):
    """`Deliveries`, blocking."""

    list = _iterate(Deliveries.list)
    counts = _call(Deliveries.counts)
    resend = _call(Deliveries.resend)
    dismiss = _call(Deliveries.dismiss)


class BlockingScheduler(_BlockingGroup):
    """`Scheduler`, blocking."""

    statistics = _call(Scheduler.statistics)
    daily = _call(Scheduler.daily)
    nodes = _call(Scheduler.nodes)
    alerts = _call(Scheduler.alerts)
    audit = _iterate(Scheduler.audit)
    upcoming = _iterate(Scheduler.upcoming)
    upcoming_counts = _call(Scheduler.upcoming_counts)
    preview_timer = _call(Scheduler.preview_timer)
    preview_template = _call(Scheduler.preview_template)
    outlook = _call(Scheduler.outlook)
    check_definition = _call(Scheduler.check_definition)
    try_definition = _call(Scheduler.try_definition)
    definition_schema = _call(Scheduler.definition_schema)


class BlockingClient:
    """`Client` for code without an event loop; use it in `with`. Thread-safe, and usable after a fork."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        key: str | None = None,
        service: str | None = None,
        timeout: float = 30.0,
        patience: Patience | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        ca: str | None = None,
    ) -> None:
        self._client = Client(
            url, key=key, service=service, timeout=timeout, patience=patience, transport=transport, ca=ca
        )
        self._loop = LoopThread("punctual-client")
        self.jobs = BlockingJobs(self._client.jobs, self._loop)
        self.executions = BlockingExecutions(self._client.executions, self._loop)
        self.bulk = BlockingBulkWork(self._client.bulk, self._loop)
        self.services = BlockingServices(self._client.services, self._loop)
        self.queues = BlockingQueues(self._client.queues, self._loop)
        self.keys = BlockingKeys(self._client.keys, self._loop)
        self.secrets = BlockingSecrets(self._client.secrets, self._loop)
        self.calendars = BlockingCalendars(self._client.calendars, self._loop)
        self.deliveries = BlockingDeliveries(self._client.deliveries, self._loop)
        self.scheduler = BlockingScheduler(self._client.scheduler, self._loop)
        self.wait_for = self.executions.wait_for

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def events(
        self,
        *,
        kinds: Sequence[str] = (),
        job_id: str | Sequence[str] | None = None,
        execution: SomeExecution | None = None,
        labels: Mapping[str, str] | None = None,
        after: str | None = None,
    ) -> Iterator[answers.Event]:
        """`Client.events`, blocking; the stream ends when the iterator is closed."""
        events = self._client.events(
            kinds=kinds, job_id=job_id, execution=execution, labels=labels, after=after
        )
        try:
            while (event := self._loop.run(_next(events))) is not None:
                yield event
        finally:
            if self._loop.is_open and isinstance(events, AsyncGenerator):
                self._loop.run(_end(events))

    def close(self) -> None:
        """Closes the connections and ends the thread; no call is possible afterwards."""
        if self._loop.is_open:
            self._loop.run(self._client.close())
            self._loop.close()


async def _next(items: AsyncIterator[R]) -> R | None:
    return await anext(items, None)


async def _end(items: AsyncGenerator[Any, None]) -> None:
    await items.aclose()
