"""What is in flight: calls, what becomes of their outcomes, and counts of missed firings."""

import asyncio

import msgspec
import pytest

from scheduler_service.domain.effects import CallPart, CountMissed
from scheduler_service.domain.execution import ExecutionState
from scheduler_service.domain.records import FiringRecord
from scheduler_service.domain.replies import Reply, Taken
from scheduler_service.domain.step_parts import WITHDRAWN
from scheduler_service.domain.turn_events import CallEnded, CancelRequested, Event
from scheduler_service.domain.wire import Answer, CallKind, Fault, FaultKind, OutboundRequest, Outcome, Token
from scheduler_service.hosts.calls_in_flight import (
    CallsInFlight,
    MisfireCounter,
    OpenSendGuard,
    SendGuard,
    SureSender,
)
from scheduler_service.hosts.event_redelivery import Redelivery
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.sending import MayGo, NotSent, always
from scheduler_service.services.instances import Instance, Instances
from scheduler_service.services.router import MemoryRouter, Terms
from scheduler_service.timing.timer import TimerText, compile_timer
from tests.manual_clock import ManualClock
from tests.unit.hosts.house import House
from tests.unit.hosts.memory_store import Fate
from tests.unit.hosts.scripted_sender import ScriptedSender

pytestmark = pytest.mark.anyio
URL = "http://a.test/"
REQUEST = OutboundRequest("POST", URL, ())
TOKEN = Token("uid", 1, 1, CallKind.STEP, 0)


class CountedRoom:
    """Knows what is handled: `sizes` of the bodies."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def hold(self, size: int) -> None:
        self.sizes.append(size)

    def release(self, size: int) -> None:
        self.sizes.remove(size)


class Bridge:
    """A crew, and a job that can be away."""

    def __init__(self, lease: int = 600_000) -> None:
        self.clock = ManualClock()
        self.sender = ScriptedSender([])
        self.taken: list[Event] = []
        self.offered: list[int] = []
        self.is_away = False
        self.log: list[str] = []
        redelivery = Redelivery(take=self.take, clock=self.clock, lease=lease)
        self.room = CountedRoom()
        self.instances = Instances()
        self.calls = self.begin(redelivery, OpenSendGuard())

    def begin(self, redelivery: Redelivery, send_guard: SendGuard) -> CallsInFlight:
        """Calls that go out by its sender, to its instances."""
        return CallsInFlight(
            sender=self.sure_sender(),
            send_guard=send_guard,
            router=MemoryRouter(instances=self.instances, terms=lambda _, __: Terms(), clock=self.clock),
            redelivery=redelivery,
            log=self.write,
            answer_room=self.room,
        )

    def sure_sender(self) -> SureSender:
        """In front of its sender; nobody counts."""
        return SureSender(sender=self.sender, log=self.write, observe_call=None)

    async def advance(self, pause: int) -> None:
        """From call to call."""
        await self.clock.run_on(pause, self.settle)

    async def settle(self) -> None:
        """Everything that can go on does."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def take(self, job_id: str, command: Command) -> Reply:
        self.offered.append(self.clock.now().steady)
        if self.is_away:
            raise StoreUnavailable("away")
        self.taken.append(command.event)
        return Taken()

    def write(self, event: str, /, **keys: object) -> None:
        self.log.append(event)


@pytest.fixture
def bridge() -> Bridge:
    return Bridge()


async def test_an_outcome_comes_home_as_call_ended(bridge: Bridge) -> None:
    """Once, and then the call is not alive any more; while it is on its way it is not sent again.

    It is sent at once: a round of the loop is long beside a burst.
    """
    bridge.sender.hold(URL)
    bridge.calls.call("job", TOKEN, REQUEST)
    assert bridge.calls.alive("uid") == (TOKEN,)
    assert bridge.sender.urls() == [URL]
    bridge.sender.release(URL)
    await bridge.settle()
    assert bridge.taken == [CallEnded(TOKEN, Answer(200, body=b"{}"))]
    assert bridge.calls.alive("uid") == ()
    assert len(bridge.calls) == 0
    bridge.is_away = True
    bridge.calls.call("job", TOKEN, REQUEST)
    await bridge.settle()
    bridge.calls.call("job", TOKEN, REQUEST)
    await bridge.settle()
    assert bridge.sender.urls() == [URL] * 2
    assert bridge.calls.alive("uid") == (TOKEN,)


async def test_an_answer_is_offered_with_growing_pauses_until_it_is_taken(bridge: Bridge) -> None:
    """100 ms, twice as long each time, at most five seconds."""
    bridge.is_away = True
    bridge.calls.call("job", TOKEN, REQUEST)
    await bridge.settle()
    await bridge.advance(20_000)
    assert bridge.offered == [0, 100, 300, 700, 1_500, 3_100, 6_300, 11_300, 16_300]
    bridge.is_away = False
    await bridge.advance(5_000)
    assert len(bridge.taken) == 1


async def test_a_large_answer_is_counted_until_its_job_has_taken_it(bridge: Bridge) -> None:
    """A small one is not; nor is one whose taker has been stopped."""
    bridge.is_away = True
    bridge.sender.answers(URL, Answer(200, body=bytes(65_537)), Answer(200, body=bytes(65_536)))
    bridge.calls.call("job", TOKEN, REQUEST)
    await bridge.settle()
    bridge.calls.call("job", msgspec.structs.replace(TOKEN, request_counts=2), REQUEST)
    await bridge.settle()
    assert bridge.room.sizes == [65_537]
    bridge.is_away = False
    await bridge.advance(5_000)
    assert (len(bridge.taken), bridge.room.sizes) == (2, [])
    bridge.is_away = True
    bridge.sender.answers(URL, Answer(200, body=bytes(65_537)))
    bridge.calls.call("job", TOKEN, REQUEST)
    await bridge.settle()
    assert bridge.room.sizes == [65_537]
    await bridge.calls.stop()
    assert bridge.room.sizes == []


async def test_an_answer_is_given_up_when_its_lease_ends() -> None:
    """And this is said."""
    bridge = Bridge(lease=1_000)
    bridge.is_away = True
    bridge.calls.call("job", TOKEN, REQUEST)
    await bridge.settle()
    await bridge.advance(5_000)
    assert bridge.log == ["answer_not_taken"]
    assert bridge.calls.alive("uid") == ()


async def test_an_abandoned_call_is_stopped(bridge: Bridge) -> None:
    """Its outcome goes nowhere; so do those of all that is in flight when they are stopped."""
    bridge.sender.hold(URL)
    bridge.calls.call("job", TOKEN, REQUEST)
    await bridge.settle()
    bridge.calls.abandon(TOKEN)
    bridge.calls.abandon(TOKEN)
    bridge.sender.release(URL)
    await bridge.settle()
    assert bridge.taken == []
    assert len(bridge.calls) == 0
    bridge.sender.hold(URL)
    bridge.calls.call("job", TOKEN, REQUEST)
    await bridge.settle()
    await bridge.calls.stop()
    assert bridge.taken == []
    assert len(bridge.calls) == 0


async def test_an_answer_on_its_way_home_is_not_cut_off(bridge: Bridge) -> None:
    """A turn that has begun must not be cancelled from outside."""
    bridge.is_away = True
    bridge.calls.call("job", TOKEN, REQUEST)
    await bridge.settle()
    bridge.calls.abandon(TOKEN)
    bridge.is_away = False
    await bridge.advance(1_000)
    assert len(bridge.taken) == 1


async def test_an_inform_is_sent_once_and_awaited_by_nobody(bridge: Bridge) -> None:
    """At most 1,000 at a time; what is too much is dropped and said."""
    bridge.sender.hold(URL)
    for _ in range(1_001):
        bridge.calls.inform(REQUEST)
    await bridge.settle()
    assert len(bridge.sender.requests) == 1_000
    assert bridge.log == ["notice_dropped"]
    bridge.sender.release(URL)
    await bridge.settle()
    bridge.calls.inform(REQUEST)
    await bridge.settle()
    assert len(bridge.sender.requests) == 1_001
    assert bridge.taken == []


class ClosedGate:
    """Lets nothing out, and knows what it turned back."""

    def __init__(self) -> None:
        self.turned_back: list[tuple[str, Token]] = []

    def admit(self, job_id: str) -> MayGo:
        """Nothing may leave."""
        return lambda: False

    def turn_back(self, job_id: str, token: Token) -> None:
        """One more."""
        self.turned_back.append((job_id, token))


async def test_a_call_that_may_not_leave_is_alive_no_more() -> None:
    """Nothing was sent and nothing comes home; the gate hears of it, and it may be made anew."""
    bridge, send_guard = Bridge(), ClosedGate()
    redelivery = Redelivery(take=bridge.take, clock=bridge.clock)
    calls = bridge.begin(redelivery, send_guard)
    for _ in range(2):
        calls.call("job", TOKEN, REQUEST)
        await bridge.settle()
        assert calls.alive("uid") == ()
    assert send_guard.turned_back == [("job", TOKEN)] * 2
    assert (bridge.sender.urls(), bridge.taken) == ([], [])


async def test_a_part_of_who_has_left_is_not_sent(bridge: Bridge) -> None:
    """It comes back as if the instance had answered that it drains: so it goes to another one."""
    bridge.instances.register(Instance("shop", "default", "a", "http://a.test", seen=0))
    bridge.instances.remove("default", "shop", "a", left_at=0)
    token = Token("uid", 1, 1, CallKind.PART, 0)
    bridge.calls.start("job", CallPart(token, "default", "shop", "a", REQUEST))
    await bridge.settle()
    assert bridge.sender.urls() == []
    assert bridge.taken == [CallEnded(token, WITHDRAWN)]
    assert bridge.calls.alive("uid") == ()


async def test_a_large_answer_of_a_part_is_counted_until_its_job_has_taken_it(bridge: Bridge) -> None:
    """As that of a step."""
    bridge.is_away = True
    address = "http://a.test"
    bridge.sender.answers(address, Answer(200, body=bytes(65_537)))
    bridge.instances.register(Instance("shop", "default", "a", address, seen=0))
    request = msgspec.structs.replace(REQUEST, url=address)
    bridge.calls.start("job", CallPart(Token("uid", 1, 1, CallKind.PART, 0), "default", "shop", "a", request))
    await bridge.settle()
    assert bridge.room.sizes == [65_537]
    bridge.is_away = False
    await bridge.advance(5_000)
    assert (len(bridge.taken), bridge.room.sizes) == (1, [])


async def test_a_part_that_may_not_leave_is_alive_no_more() -> None:
    """And it holds no place at its instance: the next call gets it."""
    bridge, send_guard = Bridge(), ClosedGate()
    bridge.instances.register(Instance("shop", "default", "a", "http://a.test", seen=0, capacity=1))
    parts = bridge.begin(Redelivery(take=bridge.take, clock=bridge.clock), send_guard)
    tokens = [Token("uid", number, number, CallKind.PART, 0) for number in (1, 2)]
    for token in tokens:
        parts.start("job", CallPart(token, "default", "shop", "a", REQUEST))
        await bridge.settle()
        assert parts.alive("uid") == ()
    assert send_guard.turned_back == [("job", token) for token in tokens]
    assert (bridge.sender.urls(), bridge.taken) == ([], [])


async def test_a_call_that_is_abandoned_before_it_runs_leaves_its_place(bridge: Bridge) -> None:
    """Its task never ran, so it cannot do so itself: the next call gets it."""
    bridge.instances.register(Instance("shop", "default", "a", "http://a.test", seen=0, capacity=1))
    first, second = (Token("uid", number, number, CallKind.PART, 0) for number in (1, 2))
    bridge.calls.start("job", CallPart(first, "default", "shop", "a", REQUEST))
    bridge.calls.abandon(first)
    bridge.calls.start("job", CallPart(second, "default", "shop", "a", REQUEST))
    await bridge.settle()
    assert len(bridge.sender.urls()) == 1
    assert [event.token for event in bridge.taken if isinstance(event, CallEnded)] == [second]


SENT = OutboundRequest("GET", "http://127.0.0.1:9/", ())


class Scripted:
    """Gives what it is told to."""

    def __init__(self, *outcomes: Outcome | Exception) -> None:
        self._outcomes = list(outcomes)
        self.is_closed = False

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        """The next one."""
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def close(self) -> None:
        """Notes it."""
        self.is_closed = True


class Scene:
    """A sender with this script, what was shown of its calls, and the words of its log."""

    def __init__(self, *outcomes: Outcome | Exception) -> None:
        self.shown: list[Outcome] = []
        self.words: list[str] = []
        self.behind = Scripted(*outcomes)
        self.sender = SureSender(
            sender=self.behind,
            log=lambda event, /, **keys: self.words.append(event),
            observe_call=self.shown.append,
        )


async def test_each_outcome_is_shown_and_passed_on() -> None:
    """An answer and a fault alike; what did not leave is not shown, and the end is passed on."""
    outcomes = [Answer(204, elapsed=3), Fault(FaultKind.EGRESS, "no", 1)]
    scene = Scene(*outcomes)
    assert [await scene.sender.send(SENT) for _ in outcomes] == outcomes
    assert scene.shown == outcomes
    assert scene.words == []
    scene = Scene(NotSent())
    with pytest.raises(NotSent):
        await scene.sender.send(SENT)
    assert (scene.shown, scene.words) == ([], [])
    await scene.sender.close()
    assert scene.behind.is_closed


async def test_a_broken_sender_is_a_fault_that_is_counted() -> None:
    """The execution that waits for it ends, and the log has the defect."""
    scene = Scene(RuntimeError("broken"))
    outcome = await scene.sender.send(SENT)
    assert isinstance(outcome, Fault)
    assert outcome.kind is FaultKind.CONNECT
    assert scene.shown == [outcome]
    assert scene.words == ["sender_failed"]


async def test_a_long_run_of_missed_firings_is_counted_outside_the_turn(house: House) -> None:
    """The ledger gets its count as soon as the walk has ended (SPEC section 3)."""
    await house.create(timer={"dueTime": "", "period": "* * * * * ?"})
    await house.crash()
    house.clock.advance(2 * 3_600_000)
    await house.start()
    await house.advance(2_000)
    counts = [one.count for one in house.history.records() if isinstance(one, FiringRecord)]
    assert None in counts
    assert max(count for count in counts if count is not None) == pytest.approx(7_140, abs=70)


async def test_runs_of_missed_firings_are_counted_one_after_the_other() -> None:
    """Of thousands of jobs that missed an hour, so that others have the loop in between (SPEC section 3)."""
    taken: list[str] = []
    go_on, all_taken = asyncio.Event(), asyncio.Event()

    async def take(job_id: str, command: Command) -> Reply:
        taken.append(job_id)
        await go_on.wait()
        if len(taken) == 3:
            all_taken.set()
        return Taken()

    counter = MisfireCounter(redelivery=Redelivery(take=take, clock=ManualClock()), log=lambda *_, **__: None)
    timer = compile_timer(TimerText(due_time="0s", period="* * * * * ?"), default_zone="UTC")
    for number in range(3):
        counter.ask(f"job-{number}", timer, CountMissed(0, 300_000, 1))
    for _ in range(200):
        await asyncio.sleep(0)
    assert taken == ["job-0"]
    go_on.set()
    await asyncio.wait_for(all_taken.wait(), 30)
    assert taken == ["job-0", "job-1", "job-2"]
    await counter.stop()


S = ExecutionState
STEP = {"url": "service://shop/run"}
SHARDED = STEP | {"route": "shard"}
A, B, C = "http://a.test", "http://b.test", "http://c.test"


async def test_a_step_waits_no_longer_than_its_attempt(house: House) -> None:
    """It fails with the attempt, and its search is given up."""
    house.announce("a", capacity=1, load=1.0)
    await house.create(request=[STEP], timeoutSeconds=5)
    await house.trigger()
    await house.advance(5_000)
    assert house.executions() == {1: S.TERMINATED}
    assert house.sender.urls() == []
    assert not house.host.running


async def test_a_cancelled_step_leaves_its_place(house: House) -> None:
    """Who is cancelled while it calls makes room."""
    house.announce("a", capacity=1)
    house.sender.hold(A)
    await house.create(request=[STEP], overlapPolicy="allow")
    await house.trigger()
    await house.trigger()
    await house.settle()
    await house.deliver(CancelRequested(1))
    await house.settle()
    assert house.sender.urls() == [A, A]


async def test_a_crash_sends_the_open_parts_again(house: House) -> None:
    """At qos 1 those whose end is durable are left alone, the others go out byte for byte."""
    house.announce("a", "b", "c")
    house.sender.hold(B)
    house.sender.hold(C)
    await house.create(request=[SHARDED], qos=1)
    await house.trigger()
    await house.settle()
    before = {request.base: request for request in house.sender.requests}
    await house.crash()
    await house.start()
    await house.settle()
    assert {request.base: request for request in house.sender.requests} == {B: before[B], C: before[C]}
    assert house.executions() == {1: S.SUCCEEDED}


async def test_a_crash_while_it_waits_for_room(house: House) -> None:
    """The search goes on in the next process."""
    house.announce("a", capacity=1, load=1.0)
    await house.create(request=[STEP], qos=1)
    await house.trigger()
    await house.settle()
    await house.crash()
    house.instances.renew("default", "shop", "a", house.clock.now().steady, load=0.0)
    await house.start()
    assert house.executions() == {1: S.SUCCEEDED}


@pytest.mark.parametrize("fate", [Fate.REFUSED, Fate.SILENT, Fate.VANISHED])
@pytest.mark.parametrize("turn", range(1, 5))
async def test_a_store_that_fails_once_holds_nothing_up(fate: Fate, turn: int, house: House) -> None:
    """Whichever turn of the step the store refuses, or does not answer for, no part is lost or sent twice."""
    house.announce("a", "b")
    await house.create(request=[SHARDED], qos=1)
    house.store.fates.extend([Fate.WRITTEN] * turn + [fate])
    await house.trigger()
    for _ in range(8):
        await house.advance(1_000)
    assert house.executions() == {1: S.SUCCEEDED}
    assert sorted(house.sender.urls()) == [A, B]
