"""What the two turns of an execution cost the loop's thread: `python -m tests.bench.turns [qos] [metrics]`.

With `metrics` calls and records are counted as in a service. Store, history and target are in memory and
answer 2 ms later, as one group each, so that turns, alarms, calls and the loop alone are measured. The
fastest of many batches tells what the work costs on a busy machine too.
"""

import asyncio
import gc
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import uvloop

from scheduler_service.domain.events import Created
from scheduler_service.domain.wire import Answer, Holder, OutboundRequest, Outcome
from scheduler_service.hosts.embedded.build import EmbeddedParts, build_embedded_host
from scheduler_service.hosts.embedded.host import EmbeddedHost
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.history import Batch
from scheduler_service.ports.sending import MayGo, always
from scheduler_service.ports.state import Commit
from scheduler_service.security.masking import Masking
from scheduler_service.services.instances import Instances
from scheduler_service.services.router import MemoryRouter, Terms
from scheduler_service.telemetry.decorators import NO_DECORATORS, PortDecorators
from scheduler_service.telemetry.metrics.process_metrics import ProcessMetrics
from scheduler_service.telemetry.observation import observed
from scheduler_service.telemetry.occurrences import Occurrences
from scheduler_service.telemetry.tally import Tally
from scheduler_service.timing.misfire import count_missed
from tests.manual_clock import ManualClock
from tests.unit.hosts.house import CORE, SKEW, START, MemoryHistory, describe
from tests.unit.hosts.memory_store import Disk, MemoryStore

BATCHES, SIZE = 40, 100
LATER = 0.002
HEADERS = (("content-length", "2"), ("content-type", "application/json"))


class Group:
    """Futures that end together, a little later."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self._answer = answer
        self._waiting: list[asyncio.Future[Any]] = []

    def join(self) -> "asyncio.Future[Any]":
        """One more that waits."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_later(LATER, self._end)
        future: asyncio.Future[Any] = loop.create_future()
        self._waiting.append(future)
        return future

    def _end(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            future.set_result(self._answer())


class Store(MemoryStore):
    """A disk whose commits of executions end in groups; creations are written at once."""

    def __init__(self) -> None:
        super().__init__(Disk(), [])
        self._group = Group(lambda: None)
        self.is_created = False
        self.commits = 0

    def commit(self, commit: Commit) -> Any:
        """Nothing is kept of what is measured."""
        if not self.is_created:
            return super().commit(commit)
        self.commits += 1
        return self._group.join()


class Target:
    """Answers 200 with a small JSON object."""

    def __init__(self) -> None:
        self._group = Group(lambda: Answer(200, HEADERS, b"{}", False, 1, "http://127.0.0.1:9/run"))

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        """The answer, with those of the same moment."""
        outcome: Outcome = await self._group.join()
        return outcome

    async def close(self) -> None:
        """Nothing to close."""


class History(MemoryHistory):
    """Counts batches and forgets them; two of each execution."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store, [])
        self.missing = 2 * SIZE
        self.is_full = asyncio.Event()

    def append(self, batch: Batch, *, durable: bool) -> None:
        """One more."""
        self.missing -= 1
        if self.missing == 0:
            self.missing = 2 * SIZE
            self.is_full.set()


def decorators_of(metrics: ProcessMetrics | None) -> PortDecorators:
    """What stands in front of the ports, as `app.telemetry` has it."""
    occurrences = Occurrences()
    failed = Tally("observer_failed", log=lambda event, /, **keys: print(event, keys))
    if metrics is None:
        return observed(NO_DECORATORS, [occurrences.observe], failed=failed)
    observers = [occurrences.observe, metrics.executions.observe]
    return observed(metrics.decorate(NO_DECORATORS), observers, failed=failed)


async def main(qos: int, *, with_metrics: bool) -> None:
    """Prints microseconds of the loop's thread for one execution."""
    store, clock = Store(), ManualClock(wall=START, skew=SKEW)
    history = History(store)
    decorators = decorators_of(ProcessMetrics() if with_metrics else None)
    parts = EmbeddedParts(
        core=CORE,
        store=store,
        history=decorators.history(history),
        sender=decorators.sender(Target()),
        router=MemoryRouter(instances=Instances(), terms=lambda _, __: Terms(), clock=clock),
        clock=clock,
        redact=Masking().redact_all,
        count=count_missed,
        log=lambda event, /, **keys: print(event, keys),
        holder=Holder("node", "1"),
        boot=1,
    )
    host = build_embedded_host(parts)
    await host.start()
    for batch in range(BATCHES):
        due = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(START // 1000 + batch + 1))
        for number in range(SIZE):
            await _create(host, f"job-{batch}-{number}", due, qos)
    store.is_created = True
    gc.collect()
    gc.freeze()
    _show(qos, [await _fire(clock, history) for _ in range(BATCHES)], store.commits)
    await host.stop(0)


async def _create(host: EmbeddedHost, job_id: str, due: str, qos: int) -> None:
    request = [{"url": "http://127.0.0.1:9/run", "body": {"n": 1}}]
    definition = describe(jobId=job_id, timer={"dueTime": due, "period": "0s"}, qos=qos, request=request)
    await host(job_id, Command(Created("", b""), definition=definition))


async def _fire(clock: ManualClock, history: History) -> float:
    history.is_full.clear()
    began = time.thread_time_ns()
    clock.advance(1_000)
    await history.is_full.wait()
    return (time.thread_time_ns() - began) / SIZE / 1_000


def _show(qos: int, taken: Sequence[float], commits: int) -> None:
    ordered = sorted(taken)
    print(
        f"qos {qos}: fastest {ordered[0]:.1f} µs, median {ordered[len(ordered) // 2]:.1f} µs an execution, "
        f"{commits / BATCHES / SIZE:.1f} commits"
    )


if __name__ == "__main__":
    numbers = [int(one) for one in sys.argv[1:] if one.isdigit()]
    uvloop.run(main(numbers[0] if numbers else 0, with_metrics="metrics" in sys.argv))
