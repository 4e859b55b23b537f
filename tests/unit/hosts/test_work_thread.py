"""Large work runs beside the loop (decision 28), and turns on much are few at a time."""

import asyncio
import gc
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler_service.domain.document import Document
from scheduler_service.domain.effects import PublishParts
from scheduler_service.domain.step_parts import PartEnd, PartName
from scheduler_service.domain.turn_events import (
    AlarmRang,
    CallEnded,
    Created,
    Event,
    PartEnded,
    Replay,
    Triggered,
)
from scheduler_service.domain.wire import Answer, CallKind, Fault, FaultKind, OutboundRequest, Token
from scheduler_service.hosts.host_dependencies import DEFAULT_LIMITS
from scheduler_service.hosts.job_cache import CachedJob, OpenBytes, weigh_open
from scheduler_service.hosts.work_thread import (
    ANY_BYTES,
    ROOM_BYTES,
    LargeTurns,
    takes_long,
    work_apart,
    work_by_size,
)
from scheduler_service.language.json_values import LARGE_BYTES
from scheduler_service.pacing.interpreter import SWITCH_SECONDS, short_turns
from scheduler_service.pacing.waiting_room import Place
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreUnavailable
from tests.manual_clock import ManualClock
from tests.rows import each_row
from tests.unit.engine.rig import Rig
from tests.unit.hosts.house import CORE, START, describe
from tests.unit.hosts.memory_store import Fate
from tests.unit.hosts.turn_rig import Bench

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("size", "is_apart"), [(0, False), (LARGE_BYTES, False), (LARGE_BYTES + 1, True)])
async def test_the_size_says_where_the_work_is_done(size: int, is_apart: bool) -> None:
    """What is small pays nothing for a thread."""
    assert (await work_by_size(size, threading.get_ident) != threading.get_ident()) is is_apart


async def test_the_loop_goes_on_meanwhile() -> None:
    """The work ends only when the loop has told it to."""
    told = threading.Event()
    work = asyncio.ensure_future(work_by_size(LARGE_BYTES + 1, told.wait))
    await asyncio.sleep(0)
    assert not work.done()
    told.set()
    assert await work


async def test_what_it_raises_arrives_and_the_next_work_is_done() -> None:
    """The interpreter changes threads as often as before."""
    usual = sys.getswitchinterval()
    with pytest.raises(ZeroDivisionError):
        await work_by_size(LARGE_BYTES + 1, lambda: 1 // 0)
    assert await work_by_size(LARGE_BYTES + 1, sys.getswitchinterval) < usual
    assert sys.getswitchinterval() == usual


class Held:
    """Notes the thread that lets go of it."""

    def __init__(self, threads: list[int]) -> None:
        self._threads = threads

    def __del__(self) -> None:
        self._threads.append(threading.get_ident())


async def test_what_failed_work_had_in_hand_is_let_go_in_its_thread() -> None:
    """On the loop 80,000 headers of a refused definition took 25 ms; errors behind the error hold as much."""
    threads: list[int] = []

    def read() -> None:
        kept = Held(threads)
        raise KeyError(id(kept))

    def work() -> None:
        kept = Held(threads)
        try:
            read()
        except KeyError:
            raise ValueError(id(kept)) from None

    with pytest.raises(ValueError, match=r"\d") as caught:
        await work_by_size(LARGE_BYTES + 1, work)
    assert len(threads) == 2
    assert threading.get_ident() not in threads
    assert caught.value.__context__ is not None


async def test_turns_are_short_until_the_last_thread_has_ended() -> None:
    """Whichever begins or ends first."""
    usual = sys.getswitchinterval()
    first, second = short_turns(), short_turns()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert await work_by_size(LARGE_BYTES + 1, sys.getswitchinterval) == pytest.approx(SWITCH_SECONDS)
    assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
    second.__exit__(None, None, None)
    assert sys.getswitchinterval() == usual


async def test_the_collector_looks_at_young_objects_alone_meanwhile() -> None:
    """A body is hundreds of thousands of objects without a cycle: a round over them would hold the loop.

    So would one afterwards over all that the process has made meanwhile, where there was no round at all.
    """
    usual = gc.get_threshold()
    rounds: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            rounds.append(info["generation"])

    def work() -> list[int]:
        rounds.clear()
        kept: list[list[int]] = [[] for _ in range(50_000)]
        assert kept
        return rounds[:]

    gc.callbacks.append(note)
    try:
        gc.set_threshold(1_000, 2, 2)
        while_working = await work_by_size(LARGE_BYTES + 1, work)
        after = gc.get_threshold()
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*usual)
    assert len(while_working) >= 40
    assert set(while_working) == {0}
    assert after == (1_000, 2, 2)


async def test_what_the_collector_is_told_meanwhile_stays() -> None:
    """As at the end of a start."""
    usual = gc.get_threshold()
    try:
        await work_by_size(LARGE_BYTES + 1, lambda: gc.set_threshold(5_000, 6, 7))
        assert gc.get_threshold() == (5_000, 6, 7)
    finally:
        gc.set_threshold(*usual)


async def test_a_collector_that_rests_is_not_woken() -> None:
    """Whoever has told it to rest, as a recovery, tells it to go on."""
    gc.disable()
    try:
        assert not await work_by_size(LARGE_BYTES + 1, gc.isenabled)
        assert not gc.isenabled()
    finally:
        gc.enable()


URL = "http://target.test/run"
TOKEN = Token("uid", 1, 1, CallKind.STEP, 0)
BODY = b"x" * ANY_BYTES
PART = PartName("uid", 1, 1, 0, 0)
REQUEST = OutboundRequest("POST", URL, ())
TEXT = "x" * LARGE_BYTES
LONG = f'"{TEXT}"'.encode()


@each_row(
    ("event", "expected"),
    [
        (AlarmRang(), False),
        (Triggered(), False),
        (Triggered(params=LONG), True),
        (CallEnded(TOKEN, Answer(200, body=b"{}")), False),
        (CallEnded(TOKEN, Answer(200, body=LONG)), True),
        (PartEnded(PART, PartEnd(body=b"{}"), REQUEST), False),
        (PartEnded(PART, PartEnd(body=LONG), REQUEST), True),
        (PartEnded(PART, PartEnd(), replace(REQUEST, body=LONG)), True),
        (CallEnded(TOKEN, Fault(FaultKind.CONNECT, "no")), False),
    ],
)
def test_an_event_is_as_large_as_its_body(event: Event, expected: bool) -> None:
    """An answer, the parameters of a trigger, or what a part ended with."""
    assert takes_long(Rig().create().job, event, START) is expected


FIRE_ALL = {"timer": {"period": "10ms", "dueTime": "10ms", "misfire": {"policy": "fire_all"}}}


@each_row(
    ("members", "event", "expected"),
    [
        ({"request": [{"url": URL, "body": [TEXT]}]}, AlarmRang(), False),
        ({"request": [{"url": URL, "body": [TEXT, "${jobId}"]}]}, AlarmRang(), True),
        ({"request": [{"url": URL, "body": "${trigger}|json"}]}, AlarmRang(), False),
        ({"paramsSchema": True}, Triggered(), True),
        (
            {"request": [{"url": URL, "body": "${$..a}|json"}]},
            Triggered(params=b'"%s"' % (b"x" * 800)),
            False,
        ),
        (
            {"request": [{"url": URL, "body": "${$..[?@.a]}|json"}]},
            Triggered(params=b'{"a":[1,2,3,4,5]}'),
            False,
        ),
        ({"request": [{"url": f"{URL}/${{$..[?@.a]}}"}]}, Triggered(params=b'"%s"' % (b"x" * 800)), True),
        (FIRE_ALL, AlarmRang(), True),
    ],
)
def test_what_a_definition_does_with_it_counts(members: dict[str, Any], event: Event, expected: bool) -> None:
    """Constant bodies cost nothing; a schema, a dear JSONPath and many firings owed do."""
    rig = Rig(**members).create()
    assert takes_long(rig.job, event, rig.now.wall + 1_020) is expected


@each_row("wait", [0, 60_000])
def test_an_execution_is_as_large_as_what_it_keeps(wait: int) -> None:
    """The parameters of its trigger, as long as it lives, also where it is for later."""
    rig = Rig().create()
    rig.deliver(Triggered(params=LONG, planned_at=rig.now.wall + wait))
    assert takes_long(rig.job, AlarmRang(), rig.now.wall)


def make(wait: int | None = None, clock: ManualClock | None = None) -> LargeTurns:
    """Without the other parts of a host."""
    counted = OpenBytes(most=DEFAULT_LIMITS.open_bytes)
    return LargeTurns(core=CORE, open_bytes=counted, clock=clock or ManualClock(wall=0), wait=wait)


async def enter_some(turns: LargeTurns, event: Event, document: Document | None = None) -> list[Place]:
    """As many as find a place at once."""
    places: list[Place] = []

    async def enter() -> None:
        places.append(await turns.enter(document, event))

    tasks = [asyncio.ensure_future(enter()) for _ in range(20)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return places


@pytest.mark.parametrize(
    ("event", "most"),
    [
        (AlarmRang(), ROOM_BYTES // ANY_BYTES),
        (Triggered(params=BODY), ROOM_BYTES // (3 * ANY_BYTES)),
        (Triggered(replay=Replay(1, 1, (BODY,))), ROOM_BYTES // (3 * ANY_BYTES)),
        (CallEnded(TOKEN, Answer(200, body=BODY)), ROOM_BYTES // (3 * ANY_BYTES)),
        (PartEnded(PART, PartEnd(body=BODY), REQUEST), ROOM_BYTES // (3 * ANY_BYTES)),
        (Triggered(params=16 * BODY), 1),
    ],
)
async def test_so_many_are_taken_at_a_time(event: Event, most: int) -> None:
    """By what their events bring; one that is larger than the room is taken alone."""
    turns = make()
    for _ in range(2):
        places = await enter_some(turns, event)
        assert len(places) == most
        for place in (*places, *places):  # once or more
            place.leave()


async def test_who_has_waited_for_long_is_to_ask_again() -> None:
    """Where a turn may take a limited time: so it is not decided in vain."""
    clock = ManualClock(wall=0)
    turns = make(wait=1_000, clock=clock)
    first = await turns.enter(None, Triggered(params=16 * BODY))
    waiting = [asyncio.ensure_future(turns.enter(None, AlarmRang())) for _ in range(2)]
    await asyncio.sleep(0)
    clock.advance(999)
    first.leave()
    second = await waiting[0]
    clock.advance(1)
    (await waiting[1]).leave()
    late = asyncio.ensure_future(turns.enter(None, Triggered(params=16 * BODY)))
    await asyncio.sleep(0)
    clock.advance(1_000)
    with pytest.raises(StoreUnavailable, match="ask again"):
        await late
    second.leave()
    (await turns.enter(None, Triggered(params=16 * BODY))).leave()


async def test_what_a_job_keeps_counts(bench: Bench) -> None:
    """A ring of such a job writes all of it again."""
    await bench.create(request=[{"url": URL}, {"url": URL, "body": "${responses[0]}|json"}])
    await bench.run(Triggered())
    await bench.answer(body=b'"%s"' % (b"x" * 24 * LARGE_BYTES))
    document = bench.cached.document
    assert weigh_open(document) > ANY_BYTES
    places = await enter_some(make(), AlarmRang(), document)
    assert len(places) == ROOM_BYTES // (ANY_BYTES + weigh_open(document))


TIMER = {"dueTime": "60s", "period": "60s"}
MANY = 2 * ROOM_BYTES // ANY_BYTES
LARGE = Triggered(params=b'"%s"' % (b"x" * LARGE_BYTES))
IN_LINE = ROOM_BYTES // (ANY_BYTES + 2 * len(LARGE.params))


async def jobs(bench: Bench, **members: object) -> list[CachedJob]:
    """Many jobs of one process."""
    found = [CachedJob(f"job-{number}") for number in range(MANY)]
    for cached in found:
        await bench.turn.run(cached, Command(Created(f"uid-{cached.job_id}", b"k" * 32), describe(**members)))
    return found


async def until(condition: Callable[[], bool]) -> None:
    """Returns when the thread for large work has done so much."""
    while not condition():  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)


def begun(bench: Bench) -> int:
    """How many commits have been asked for."""
    return bench.names().count("commit")


async def test_a_turn_has_its_place_until_it_is_durable(bench: Bench) -> None:
    """The others are not decided before: a slow store does not let their states pile up."""
    many = await jobs(bench, qos=1)
    before = begun(bench)
    bench.store.hold()
    turns = [asyncio.ensure_future(bench.turn.run(cached, Command(LARGE))) for cached in many]
    await until(lambda: begun(bench) - before >= IN_LINE)
    await work_apart(lambda: None)  # after all that the thread was asked for
    await asyncio.sleep(0)
    assert begun(bench) - before == IN_LINE
    bench.store.release()
    await asyncio.gather(*turns)
    assert len(bench.calls()) == MANY


@pytest.mark.parametrize("qos", [0, 1])
async def test_a_turn_that_waits_for_its_moment_has_left_its_place(qos: int, bench: Bench) -> None:
    """All that are due at one moment are decided ahead of it, and others meanwhile."""
    body = {"x": "x" * 2 * LARGE_BYTES, "n": "${executeNumber}"}
    many = await jobs(bench, qos=qos, timer=TIMER, request=[{"url": URL, "body": body}])
    before = begun(bench)
    bench.clock.advance(60_000 - 20)
    due = START + 60_000
    turns = [asyncio.ensure_future(bench.turn.run(one, Command(AlarmRang()), due)) for one in many]
    await until(lambda: begun(bench) - before == MANY and bench.clock.next_call() is not None)
    other = CachedJob("other")
    await bench.turn.run(other, Command(Created("uid-other", b"k" * 32), describe()))
    await bench.turn.run(other, Command(LARGE))
    assert len(bench.calls()) == 1
    bench.clock.advance(20)
    await asyncio.gather(*turns)
    assert len(bench.calls()) == 1 + MANY


async def test_parts_that_wait_for_their_moment_have_left_their_places_too(bench: Bench) -> None:
    """Whoever claims sees them as soon as they are durable: they are decided again at their moment."""
    body = {"x": "x" * 2 * LARGE_BYTES, "n": "${executeNumber}"}
    many = await jobs(bench, qos=1, timer=TIMER, request=[{"url": "queue://work", "body": body}])
    before = begun(bench)
    bench.clock.advance(60_000 - 20)
    due = START + 60_000
    turns = [asyncio.ensure_future(bench.turn.run(one, Command(AlarmRang()), due)) for one in many]
    await until(lambda: bench.clock.next_call() is not None)
    other = CachedJob("other")
    await bench.turn.run(other, Command(Created("uid-other", b"k" * 32), describe()))
    await bench.turn.run(other, Command(LARGE))
    assert (len(bench.calls()), begun(bench) - before) == (1, 2)
    bench.clock.advance(20)
    await asyncio.gather(*turns)
    published = [effect for effect in bench.effects if isinstance(effect, PublishParts)]
    assert len(published) == MANY


async def test_those_in_line_leave_their_states_to_the_store(bench: Bench) -> None:
    """A thousand triggers for one moment would else have all of their parameters in memory."""
    many = await jobs(bench, qos=1)
    later = replace(LARGE, planned_at=bench.clock.now().wall + 60_000)
    for cached in many:
        await bench.turn.run(cached, Command(later))
    bench.clock.advance(60_000)
    before = begun(bench)
    bench.store.hold()
    turns = [asyncio.ensure_future(bench.turn.run(cached, Command(AlarmRang()))) for cached in many]
    await until(lambda: begun(bench) - before >= IN_LINE)
    assert sum(cached.loaded for cached in many) == IN_LINE + 1  # the first one in line as well
    bench.store.release()
    await asyncio.gather(*turns)
    assert {call.request.url for call in bench.calls()} == {URL}
    assert len(bench.calls()) == MANY


async def test_large_executions_are_taken_up_after_a_crash(bench: Bench) -> None:
    """Their calls are looked after in turns that are large as well."""
    many = await jobs(bench, qos=1)
    for cached in many:
        await bench.turn.run(cached, Command(LARGE))
    later = Bench(bench.disk, boot=2)
    found = [CachedJob(cached.job_id) for cached in many]
    async with asyncio.timeout(60):
        await asyncio.gather(*(later.turn.run(cached, Command(AlarmRang())) for cached in found))
    assert len(later.calls()) == MANY
    assert not any(cached.cut_off for cached in found)


async def test_a_turn_that_fails_makes_way_for_the_next_one(bench: Bench) -> None:
    """The store is away; nobody waits for ever."""
    await bench.create(qos=1)
    event = Triggered(params=b'"%s"' % (b"x" * LARGE_BYTES))
    for _ in range(2 * ROOM_BYTES // ANY_BYTES):
        bench.store.fates.append(Fate.REFUSED)
        with pytest.raises(StoreUnavailable):
            await bench.run(event)
    await bench.run(event)
    assert len(bench.calls()) == 1
