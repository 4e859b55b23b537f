"""What a worker process asks of its service: instances with room, addresses, and those who wait for work."""

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from scheduler_service.domain.effects import (
    CallPart,
    PublishParts,
    ReconfigureParts,
    ResolveInstances,
    WithdrawParts,
)
from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.domain.step_parts import Chosen, PartName, QueuedPart, QueueOptions
from scheduler_service.domain.wire import Answer, CallKind, OutboundRequest, Outcome, Token
from scheduler_service.hosts.processes import rpc_methods
from scheduler_service.hosts.processes.parent import (
    MOST_WAITING,
    LookupSender,
    OccurrenceRelay,
    ParentDirectory,
    ParentService,
    RemoteRouter,
    wake_parent_claimers,
)
from scheduler_service.hosts.processes.rpc_methods import RpcConnection
from scheduler_service.ports.sending import MayGo, Sender, always
from scheduler_service.services.instances import Instance, Instances
from scheduler_service.services.router import MemoryRouter, Terms
from scheduler_service.telemetry.event_source import Occurrences
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.anyio
REQUEST = OutboundRequest("POST", "service://shop/x", (("a", "b"),), b"body")


class Scene:
    """A service with one instance that takes one call at a time, and a connected worker process."""

    def __init__(self) -> None:
        self.clock = ManualClock(wall=1_000_000)
        self.instances = Instances()
        self.places = MemoryRouter(instances=self.instances, terms=lambda _, __: Terms(), clock=self.clock)
        self.addresses: dict[str, tuple[str | None, int, str, bool | None]] = {}
        self.asked: list[str] = []
        self.woken: list[Any] = []
        self.parent = ParentService(
            router=self.places, address_of=self.locate, wake_claimers=lambda *told: self.woken.append(told)
        )
        self.instances.register(
            Instance(
                "shop",
                "default",
                "i1",
                "http://i1.test",
                capacity=1,
                seen=self.clock.now().steady,
                vouched=True,
            )
        )

    def locate(self, name: str) -> tuple[str | None, int, str, bool | None]:
        self.asked.append(name)
        return self.addresses.get(name, (None, 0, "", None))

    async def search(self, serial: int) -> tuple[tuple[Chosen, ...], str]:
        return await self.router.resolve(ResolveInstances(_token(serial), "default", "shop", "key", "seed"))

    async def open(self) -> None:
        ours, theirs = socket.socketpair()
        self.lost = asyncio.Event()
        self.service = await self._connect(ours, self.parent.serve, self.parent.take_notice, self.parent.end)
        self.connection = await self._connect(theirs, _refuse, lambda method, argument: None, self.lost.set)
        self.router = RemoteRouter(connection=self.connection)

    async def _connect(self, end: socket.socket, serve: Any, on_notice: Any, on_lost: Any) -> RpcConnection:
        end.setblocking(False)
        return await RpcConnection.open(
            end, serve=serve, on_notice=on_notice, on_lost=on_lost, log=lambda event, /, **keys: None
        )

    async def said(self) -> None:
        """Returns when all notices have been taken."""
        self.addresses.setdefault("said", (None, 0, "", None))
        await ParentDirectory(connection=self.connection).learn("said")


async def _refuse(method: str, argument: bytes) -> bytes:
    raise KeyError(method)


def _token(serial: int) -> Token:
    return Token("uid", serial, 1, CallKind.RESOLVE, 0)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    await scene.open()
    try:
        yield scene
    finally:
        scene.connection.close()
        scene.service.close()
        await scene.lost.wait()


async def test_a_place_is_held_for_a_shard_and_given_back(scene: Scene) -> None:
    """Who is full is full for all shards: capacities are counted in one place (SPEC section 13)."""
    assert (await scene.search(1))[0] == (Chosen("i1", "http://i1.test", vouched=True),)
    second = asyncio.ensure_future(scene.search(2))
    await scene.said()
    assert not second.done()
    scene.router.leave(_token(1))
    assert (await second)[0] == (Chosen("i1", "http://i1.test", vouched=True),)


async def test_who_stops_waiting_gets_no_place(scene: Scene) -> None:
    """A search that is abandoned while it waits, or just before it arrives, has no place for ever."""
    await scene.search(1)
    waiting = asyncio.ensure_future(scene.search(2))
    await scene.said()
    waiting.cancel()
    scene.router.leave(_token(2))
    unheard = asyncio.ensure_future(scene.search(3))
    await asyncio.sleep(0)
    unheard.cancel()
    scene.router.leave(_token(3))
    await scene.said()
    scene.router.leave(_token(1))
    assert (await scene.search(4))[0]


async def test_the_places_of_a_dead_process_are_free(scene: Scene) -> None:
    """The process cannot give them back any more."""
    await scene.search(1)
    waiting = asyncio.ensure_future(scene.search(2))
    await scene.said()
    scene.connection.close()
    await scene.lost.wait()
    with pytest.raises(Exception, match="worker process ended"):
        await waiting
    free = ResolveInstances(_token(9), "default", "shop", "key", "seed")
    assert (await asyncio.wait_for(scene.places.resolve(free), 5))[0]


async def test_a_call_takes_over_the_place_of_its_search(scene: Scene) -> None:
    """Without its body: the service only counts it."""
    await scene.search(1)
    call = CallPart(Token("uid", 1, 1, CallKind.PART, 1), "default", "shop", "i1", REQUEST)
    second = asyncio.ensure_future(scene.search(2))
    await scene.said()
    assert not scene.router.take_place(call)
    scene.router.leave(_token(1))  # as the calls in flight do it: the search is over before the call begins
    await scene.said()
    assert not second.done()
    await scene.router.enter(call)
    await scene.said()
    assert not second.done()
    scene.router.leave(call.token)
    await second


async def test_a_call_that_is_abandoned_before_it_enters_holds_nothing(scene: Scene) -> None:
    """Its place was asked for already."""
    call = CallPart(Token("uid", 1, 1, CallKind.PART, 1), "default", "shop", "i1", REQUEST)
    assert not scene.router.take_place(call)
    scene.router.leave(call.token)
    await scene.said()
    assert (await scene.search(2))[0]


async def test_a_draining_instance_is_left_out_for_all(scene: Scene) -> None:
    """What one shard learns of an instance counts for every shard."""
    scene.router.mark_draining("default", "shop", "i1")
    assert await scene.search(1) == ((), "random", 0, False)


async def test_who_drains_is_not_called_by_another_shard(scene: Scene) -> None:
    """Though it was chosen before."""
    call = CallPart(Token("uid", 1, 1, CallKind.PART, 1), "default", "shop", "i1", REQUEST)
    assert await scene.router.enter(call)
    scene.router.leave(call.token)
    scene.router.mark_draining("default", "shop", "i1")
    assert not await scene.router.enter(call)


async def test_an_instance_that_refuses_is_left_out_for_all(scene: Scene) -> None:
    """Until its next heartbeat: the search of another shard waits for it."""
    scene.router.mark_refused("default", "shop", "i1")
    search = asyncio.ensure_future(scene.search(1))
    await scene.said()
    assert not search.done()
    scene.instances.renew("default", "shop", "i1", scene.clock.now().steady)
    scene.clock.advance(250)
    assert (await search)[0]


class Target(Sender):
    """Notes where the directory would send."""

    def __init__(self, directory: ParentDirectory) -> None:
        self.directory = directory
        self.found: list[str | None] = []

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        self.found.append(self.directory.address("shop"))
        return Answer(200)

    async def close(self) -> None:
        return None


async def test_an_address_is_asked_for_each_call(scene: Scene) -> None:
    """So it is what the service knows now; who has an address already, or is no service, is not asked for."""
    directory = ParentDirectory(connection=scene.connection)
    target = Target(directory)
    sender = LookupSender(sender=target, directory=directory)
    await sender.send(REQUEST)
    scene.addresses["shop"] = ("http://shop.test", 0, "hooks", True)
    await sender.send(REQUEST)
    assert target.found == [None, "http://shop.test"]
    assert (directory.signing("shop"), directory.signing("bank")) == ("hooks", "")
    assert (directory.vouched("shop"), directory.vouched("bank")) == (True, None)
    for url, base in (("http://a/", ""), ("service:/x", ""), ("service://shop/x", "http://i1")):
        await sender.send(OutboundRequest("GET", url, (), base=base))
    assert scene.asked == ["shop", "shop"]


async def test_who_waits_for_instances_learns_of_them(scene: Scene) -> None:
    """Just after a start of the service its instances are not back yet."""
    directory = ParentDirectory(connection=scene.connection)
    scene.addresses["shop"] = (None, 30_000, "", None)
    await directory.learn("shop")
    assert directory.wait("shop") == 30_000
    scene.addresses["shop"] = ("http://shop.test", 0, "hooks", True)
    assert directory.wait("shop") == 30_000
    await scene.said()
    await scene.said()
    assert directory.address("shop") == "http://shop.test"


async def test_work_for_queues_wakes_those_who_wait(scene: Scene) -> None:
    """By the names of the queues, with the end of the first queue timeout; other writes may concern any."""
    name = PartName("uid", 1, 1, 0, 0)
    part = QueuedPart(name, "resize", 1, REQUEST, QueueOptions(queue_timeout=9), 0, 0, "job", "default", 5)
    wake_parent_claimers(scene.connection, PublishParts((part, part)))
    wake_parent_claimers(scene.connection, WithdrawParts("uid", 1, 1))
    wake_parent_claimers(scene.connection, ReconfigureParts(name, QueueOptions()))
    await scene.said()
    assert scene.woken == [([("default", "resize")], 14), (None, None), (None, 0)]


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
