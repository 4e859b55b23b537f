"""The occurrences of a worker process reach the service in groups, only while they are wanted there."""

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.hosts.processes import rpc_methods
from scheduler_service.hosts.processes.parent import MOST_WAITING, OccurrenceRelay, ParentService
from scheduler_service.hosts.processes.rpc_methods import RpcConnection
from scheduler_service.services.instances import Instances
from scheduler_service.services.router import MemoryRouter, Terms
from scheduler_service.telemetry.event_source import Occurrences
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.anyio


class Pair:
    """A worker process and its service, each with its occurrences; `groups` counts what came over."""

    def __init__(self) -> None:
        self.here, self.there = Occurrences(), Occurrences()
        self.groups = 0
        clock = ManualClock(wall=1_000_000)
        self._parent = ParentService(
            router=MemoryRouter(instances=Instances(), terms=lambda _, __: Terms(), clock=clock),
            address_of=lambda _: (None, 0, "", None),
            wake_claimers=lambda *_: None,
            publish=self.there.publish,
        )

    async def open(self) -> None:
        ours, theirs = socket.socketpair()
        self.service = await _connect(ours, self._serve, lambda method, argument: None)
        self.worker = await _connect(theirs, self._parent.serve, self._take_notice)
        self.relay = OccurrenceRelay(occurrences=self.here, connection=self.worker, worker=2)
        self.leave = self.there.follow_interest(
            lambda wanted: rpc_methods.LISTEN.notify(self.service, wanted)
        )

    async def settle(self) -> None:
        """Returns when the worker process knows what the service wants."""
        await rpc_methods.PING.call(self.worker, None)
        await rpc_methods.PING.call(self.service, None)
        await asyncio.sleep(0)

    def close(self) -> None:
        self.leave()
        self.service.close()
        self.worker.close()

    async def _serve(self, method: str, argument: bytes) -> bytes:
        if method == rpc_methods.PING.name:
            return argument
        self.groups += 1
        return await self._parent.serve(method, argument)

    def _take_notice(self, method: str, argument: bytes) -> None:
        assert method == rpc_methods.LISTEN.name
        self.relay.listen(rpc_methods.LISTEN.read_argument(argument))


async def _connect(end: socket.socket, serve: Any, on_notice: Any) -> RpcConnection:
    end.setblocking(False)

    async def answer(method: str, argument: bytes) -> bytes:
        return argument if method == rpc_methods.PING.name else await serve(method, argument)

    return await RpcConnection.open(
        end, serve=answer, on_notice=on_notice, on_lost=lambda: None, log=lambda event, /, **keys: None
    )


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    pair = Pair()
    await pair.open()
    try:
        yield pair
    finally:
        pair.close()


def occurrence(number: int) -> Occurrence:
    return Occurrence(kind=OccurrenceKind.STARTED, at=1, tenant="default", job_id="j", execute_number=number)


async def test_nothing_is_made_before_the_service_wants_it_and_all_after(pair: Pair) -> None:
    """The wish goes over, the occurrences come back in their order, and the end of the wish as well."""
    assert not pair.here.are_wanted
    taken: list[Occurrence] = []
    leave = pair.there.subscribe(taken.append)
    await pair.settle()
    assert pair.here.are_wanted
    for number in range(100):
        pair.here.publish(occurrence(number))
    await pair.relay.flush()
    assert taken == [occurrence(number) for number in range(100)]
    assert pair.groups == 1
    leave()
    await pair.settle()
    assert not pair.here.are_wanted


async def test_a_service_that_is_slow_makes_no_heap_in_the_worker_process(pair: Pair) -> None:
    """What is beyond the bound is dropped and told as a gap with its number, where it was."""
    taken: list[Occurrence] = []
    pair.there.subscribe(taken.append)
    await pair.settle()
    for number in range(MOST_WAITING + 7):
        pair.here.publish(occurrence(number))
    await pair.relay.flush()
    assert len(taken) == MOST_WAITING + 1
    assert (taken[-1].kind, taken[-1].count) == (OccurrenceKind.GAP, 7)


async def test_a_service_that_has_gone_holds_up_no_end(pair: Pair) -> None:
    """The flush returns although nobody answers."""
    pair.there.subscribe(lambda one: None)
    await pair.settle()
    pair.worker.close()
    pair.here.publish(occurrence(1))
    async with asyncio.timeout(10):
        await pair.relay.flush()


@pytest.mark.parametrize("follows", [False, True])
async def test_what_happens_to_the_process_itself_always_goes_over(follows: bool, pair: Pair) -> None:
    """Once, with the process as its subject; of jobs nothing does while nobody follows."""
    heard: list[Occurrence] = []
    pair.there.listen(heard.append)
    if follows:
        pair.there.subscribe(lambda one: None)
    await pair.settle()
    lost = Occurrence(kind=OccurrenceKind.STORE_LOST, at=5, message="disk full")
    pair.here.publish(lost)
    pair.here.publish(msgspec.structs.replace(lost, subject="history"))
    pair.here.publish(occurrence(1))
    await pair.relay.flush()
    own = [one for one in heard if one.tenant is None]
    assert [(one.kind, one.subject) for one in own] == [
        (OccurrenceKind.STORE_LOST, "worker 2"),
        (OccurrenceKind.STORE_LOST, "worker 2/history"),
    ]
    assert len(heard) == 2 + follows
