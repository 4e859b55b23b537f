"""What the two turns of an execution cost the loop's thread: `python -m tests.bench.turns [qos]`.

Store, history and target are in memory and answer 2 ms later, as one group each, so that turns, alarms, calls
and the loop alone are measured. The fastest of many batches tells what the work costs on a busy machine too.
`tests.bench.telemetry` compares it with and without telemetry.
"""

import asyncio
import gc
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import uvloop

from scheduler_service.domain.turn_events import Created
from scheduler_service.domain.wire import Answer, Holder, OutboundRequest, Outcome
from scheduler_service.hosts.embedded.host import EmbeddedParts, build_embedded_host
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.history import Batch
from scheduler_service.ports.sending import MayGo, always
from scheduler_service.ports.state import Commit
from scheduler_service.security.masking import Masking
from scheduler_service.services.instances import Instances
from scheduler_service.services.router import MemoryRouter, Terms
from scheduler_service.telemetry.decorators import NO_DECORATORS, PortDecorators
from tests.manual_clock import ManualClock
from tests.unit.hosts.house import CORE, SKEW, START, MemoryHistory, describe
from tests.unit.hosts.memory_store import Disk, MemoryStore

BATCHES, SIZE = 40, 100
LATER = 0.002
STEP = {"url": "http://127.0.0.1:9/run", "body": {"n": 1}}
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
    """Counts batches and forgets them."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store, [])
        self._missing = 0
        self._is_full = asyncio.Event()

    def expect(self, batches: int) -> asyncio.Event:
        """Is set when so many more are there."""
        self._missing = batches
        self._is_full = asyncio.Event()
        return self._is_full

    def append(self, batch: Batch, *, durable: bool) -> None:
        """One more."""
        self._missing -= 1
        if self._missing == 0:
            self._is_full.set()


class Firing:
    """A host whose jobs fire a batch of `SIZE` at a time, with `decorators` in front of its ports."""

    def __init__(self, *, qos: int, steps: int = 1, decorators: PortDecorators = NO_DECORATORS) -> None:
        self.store, self._clock = Store(), ManualClock(wall=START, skew=SKEW)
        self._history = History(self.store)
        self._batches = steps + 1
        self._members = {"qos": qos, "request": [STEP] * steps}
        parts = EmbeddedParts(
            core=CORE,
            store=self.store,
            history=decorators.history(self._history),
            sender=decorators.sender(Target()),
            router=MemoryRouter(instances=Instances(), terms=lambda _, __: Terms(), clock=self._clock),
            clock=self._clock,
            redact=Masking().redact_all,
            log=lambda event, /, **keys: print(event, keys),
            holder=Holder("node", "1"),
            boot=1,
            observe_job=decorators.observe_job,
            observe_call=decorators.observe_call,
        )
        self._host = build_embedded_host(parts)

    async def prepare(self, batches: int) -> None:
        """Starts the host and creates the jobs, each batch a second later than the one before."""
        await self._host.start()
        for batch in range(batches):
            due = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(START // 1000 + batch + 1))
            timer = {"dueTime": due, "period": "0s"}
            for number in range(SIZE):
                job_id = f"job-{batch}-{number}"
                definition = describe(jobId=job_id, timer=timer, **self._members)
                await self._host(job_id, Command(Created("", b""), definition=definition))
        self.store.is_created = True

    async def fire(self) -> float:
        """Microseconds of the loop's thread for one execution of the next batch."""
        is_full = self._history.expect(self._batches * SIZE)
        began = time.thread_time_ns()
        self._clock.advance(1_000)
        await is_full.wait()
        return (time.thread_time_ns() - began) / SIZE / 1_000

    async def stop(self) -> None:
        """Stops the host."""
        await self._host.stop(0)


async def main(qos: int) -> None:
    """Prints microseconds of the loop's thread for one execution."""
    firing = Firing(qos=qos)
    await firing.prepare(BATCHES)
    gc.collect()
    gc.freeze()
    _show(qos, [await firing.fire() for _ in range(BATCHES)], firing.store.commits)
    await firing.stop()


def _show(qos: int, taken: Sequence[float], commits: int) -> None:
    ordered = sorted(taken)
    print(
        f"qos {qos}: fastest {ordered[0]:.1f} µs, median {ordered[len(ordered) // 2]:.1f} µs an execution, "
        f"{commits / BATCHES / SIZE:.1f} commits"
    )


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
