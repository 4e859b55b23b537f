"""Jobs between two turns: locked in order, bounded in memory."""

import asyncio
import gc
import json
import tracemalloc
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler_service.domain.document import (
    Calling,
    CheckWaiting,
    Context,
    Document,
    Kept,
    LastEvent,
    Open,
    PartsOpen,
    PartsQueued,
    Phase,
    Report,
)
from scheduler_service.domain.execution import ExecutionState, TriggeredBy
from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.replies import Refusal, Started
from scheduler_service.domain.step_parts import Part, PartEnd
from scheduler_service.domain.turn_events import (
    AlarmRang,
    CallEnded,
    CancelRequested,
    Created,
    Destroyed,
    Event,
    FeedbackArrived,
    Paused,
    Triggered,
    Updated,
)
from scheduler_service.domain.wire import Answer, OutboundRequest
from scheduler_service.engine.feedback_url import feedback_token
from scheduler_service.engine.program import USUAL_BYTES, weigh
from scheduler_service.hosts.host_dependencies import DEFAULT_LIMITS, HostLimits
from scheduler_service.hosts.job_cache import CachedJob, JobCache, LockedJob, OpenBytes, weigh_open
from scheduler_service.hosts.job_loading import ProgramCache
from scheduler_service.language.json_values import LARGE_BYTES
from scheduler_service.ports.delivery import Command
from tests.present import present
from tests.unit.hosts.house import START, House, compile_stored, compile_text, describe
from tests.unit.hosts.turn_rig import Bench

pytestmark = pytest.mark.anyio
URL = "http://target.test/run"


async def test_events_of_one_job_are_taken_in_the_order_of_their_arrival(house: House) -> None:
    """A FIFO lock per job, commands before the others; other jobs do not wait for it."""
    await house.create(maxConcurrency=100)
    house.sender.hold(URL)
    replies = await asyncio.gather(*(house.trigger() for _ in range(20)))
    assert [reply.execute_number for reply in replies if isinstance(reply, Started)] == list(range(1, 21))


async def test_who_stops_waiting_stops_nothing(house: House) -> None:
    """A caller that goes away leaves no turn half taken."""
    await house.create()
    house.store.hold()
    turn = asyncio.create_task(house.trigger())
    await house.settle()
    turn.cancel()
    await asyncio.gather(turn, return_exceptions=True)
    house.store.release()
    await house.settle()
    assert house.executions() == {1: State.SUCCEEDED}


async def test_a_lock_that_was_handed_to_somebody_who_left_goes_on() -> None:
    """No wake-up is lost when who was woken is cancelled in the same moment."""
    actor = LockedJob("job")
    await actor.acquire()
    second, third = asyncio.create_task(actor.acquire()), asyncio.create_task(actor.acquire())
    await asyncio.sleep(0)
    actor.release()
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    await asyncio.wait_for(third, 30)
    assert actor.is_busy
    actor.release()
    assert not actor.is_busy


async def test_who_leaves_the_line_is_passed_over() -> None:
    """Cancelled while it waits, it holds up nobody behind it."""
    actor = LockedJob("job")
    await actor.acquire()
    second, third = asyncio.create_task(actor.acquire()), asyncio.create_task(actor.acquire())
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.sleep(0)
    actor.release()
    await asyncio.wait_for(third, 30)


async def test_commands_go_first_in_their_order() -> None:
    """Before all that waits; one that leaves is passed over as well."""
    actor, order = LockedJob("job"), list[str]()
    await actor.acquire()

    async def ask(name: str, is_command: bool) -> None:
        await actor.acquire(is_command=is_command)
        order.append(name)
        actor.release()

    asked = [("a", False), ("B", True), ("c", False), ("D", True), ("E", True)]
    tasks = [asyncio.create_task(ask(name, is_command)) for name, is_command in asked]
    await asyncio.sleep(0)
    tasks[3].cancel()
    actor.release()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == ["B", "E", "a", "c"]
    assert not actor.is_busy


@pytest.mark.parametrize("event", [Paused(), Destroyed(), CancelRequested(1)])
async def test_a_command_does_not_wait_for_what_is_in_line(event: Event, house: House) -> None:
    """A job with thousands of answers in line was paused after 18 s."""
    await house.create(overlapPolicy="queue")
    house.store.hold()
    turns = [asyncio.create_task(house.trigger()) for _ in range(5)]
    await house.settle()
    command = asyncio.create_task(house.deliver(event))
    await house.settle()
    for _ in range(2):
        house.store.release()
        house.store.hold()
        await house.settle()
    assert command.done()
    assert sum(turn.done() and isinstance(turn.result(), Started) for turn in turns) <= 2
    house.store.release()
    await asyncio.gather(*turns)


async def test_the_cache_of_hot_jobs_is_bounded() -> None:
    """Idle jobs leave memory; those whose executions run stay, and all go on working."""
    house = await House(limits=HostLimits(hot=5)).start()
    house.sender.hold("http://slow.test/")
    await house.create("live", request=[{"url": "http://slow.test/"}])
    await house.trigger("live")
    for number in range(20):
        await house.create(f"job{number}")
    assert house.host.jobs_held <= 6
    assert house.host.running == 1
    house.sender.release("http://slow.test/")
    await house.settle()
    assert house.executions("live") == {1: State.SUCCEEDED}
    await house.trigger("job0")
    await house.settle()
    assert house.executions("job0") == {1: State.SUCCEEDED}


DEAR = {f"label-{number}": "x" for number in range(300)}


async def test_the_cache_of_hot_jobs_is_bounded_by_what_they_weigh() -> None:
    """However few they are; one that weighs more than all may, is worked on nevertheless."""
    house = await House(limits=HostLimits(hot_bytes=3 * weigh(describe(labels=DEAR).text))).start()
    house.sender.hold("http://slow.test/")
    await house.create("live", request=[{"url": "http://slow.test/"}], labels=DEAR)
    await house.trigger("live")
    for number in range(10):
        await house.create(f"job{number}", labels=DEAR)
    assert house.host.jobs_held <= 4
    for number in range(10):
        await house.trigger(f"job{number}")
        await house.settle()
        assert house.executions(f"job{number}") == {1: State.SUCCEEDED}
        assert house.host.jobs_held <= 4
    for number in range(10):
        await house.create(f"small{number}")
    assert house.host.jobs_held >= 11
    assert house.host.running == 1


async def test_a_job_weighs_what_its_definitions_do() -> None:
    """Replaced by a small one, or destroyed, it makes room for others."""
    house = await House(limits=HostLimits(hot_bytes=2 * weigh(describe(labels=DEAR).text) + 100)).start()
    for number in range(4):
        await house.create(f"job{number}", labels=DEAR)
        small = describe(jobId=f"job{number}")
        await house.host(f"job{number}", Command(Updated(0), definition=small))
    assert house.host.jobs_held == 4
    await house.create("first", labels=DEAR)
    await house.create("second", labels=DEAR)
    await house.deliver(Destroyed(), "first")
    await house.create("third", labels=DEAR)
    assert house.host.jobs_held == 6


async def test_a_job_weighs_what_its_open_executions_do() -> None:
    """Loaded from the store as well; once they have ended, the job weighs nothing any more."""
    house = await House(limits=HostLimits(hot_bytes=60_000)).start()
    params = b'{"text": "%b"}' % (b"x" * 20_000)
    for number in range(10):
        await house.create(f"job{number}")
        await house.deliver(Triggered(params=params, planned_at=START + 1_000 * (number + 1)), f"job{number}")
        assert house.host.jobs_held <= 3
    for number in range(10):
        assert await house.host.read(f"job{number}") is not None
        assert house.host.jobs_held <= 3
    await house.advance(11_000)
    assert [house.executions(f"job{number}")[1] for number in range(10)] == [State.SUCCEEDED] * 10
    for number in range(10):
        assert await house.host.read(f"job{number}") is not None
    assert house.host.jobs_held == 10


@pytest.mark.parametrize("qos", [0, 1])
async def test_what_must_stay_pushes_no_other_job_out(qos: int) -> None:
    """Executions that run, however large: the others are still there when they fire."""
    house = await House(limits=HostLimits(hot_bytes=60_000)).start()
    house.sender.hold(URL)
    params = b'{"text": "%b"}' % (b"x" * 20_000)
    for number in range(5):
        await house.create(f"live{number}", qos=qos)
        await house.deliver(Triggered(params=params), f"live{number}")
    for number in range(100):
        await house.create(f"job{number}")
    assert (house.host.running, house.host.jobs_held) == (5, 105)


KEEPING = [{"url": URL}, {"url": URL, "body": "${responses[0]}|json"}]
REQUEST = OutboundRequest("POST", URL, (), b"x" * 100)
SECOND = 1_000


async def document(phase: Phase, **members: Any) -> Document:
    """A job with one execution in `phase`."""
    bench = Bench()
    await bench.create()
    assert bench.cached.document is not None
    run = Open(
        1,
        ExecutionState.PROCESSING,
        TriggeredBy.MANUAL,
        START,
        START,
        params=b"x" * 10,
        replayed=(b"x" * 20, b"x" * 30),
    )
    head = replace(bench.cached.document.head, opens=(run,))
    return Document(head, {1: Context(phase=phase, deadline=0, **members)})


@pytest.mark.parametrize(
    ("phase", "size"),
    [
        (CheckWaiting(0), 0),
        (Calling(0, REQUEST, 0), 0),
        (PartsQueued(0, "q", URL, 0, (None, PartEnd(body=b"x" * 7), PartEnd())), 7),
        (
            PartsOpen(
                0, "s", "shard", 0, (Part(0, 1, request=REQUEST), Part(1, 1, end=PartEnd(body=b"x" * 8)))
            ),
            108,
        ),
    ],
)
async def test_all_bodies_of_open_executions_are_weighed(phase: Phase, size: int) -> None:
    """Parameters, what a replay brought, responses, last event and verdict, twice each; parts once."""
    kept = (Kept(200, URL, b"x" * 200), Kept(200, URL))
    assert weigh_open(await document(phase)) == 120 + size
    assert weigh_open(await document(phase, responses=kept, told=LastEvent("200", b"x" * 9))) == 538 + size
    assert weigh_open(await document(phase, verdict=Report("succeed", body=b"x" * 5))) == 130 + size
    assert weigh_open(None) == 0


def test_the_sum_is_over_jobs() -> None:
    """Each counts with what was noted of it last."""
    counted = OpenBytes(most=100)
    one, other = CachedJob("one"), CachedJob("other")
    counted.note(one, 60)
    counted.note(other, 50)
    assert (counted.total, counted.is_full) == (110, True)
    counted.note(one, 0)
    assert (counted.total, counted.is_full, one.open_bytes, other.open_bytes) == (50, False, 0, 50)


async def _begin(bench: Bench, **members: Any) -> None:
    await bench.create(**members)
    assert isinstance(await bench.run(Triggered()), Started)


@pytest.mark.parametrize("qos", [0, 1])
async def test_a_kept_response_takes_room_until_its_execution_ends(qos: int) -> None:
    """From the decision on: others are decided while it is written."""
    bench, cache, locked = in_cache()
    await _begin(bench, request=KEEPING, qos=qos)
    await bench.answer(body=b'"%s"' % (b"x" * LARGE_BYTES))
    size = 2 * (LARGE_BYTES + 2 + 2)  # the response and the parameters, and the requests of them
    assert bench.open_bytes.total == size
    cache.leave(locked)
    assert bench.open_bytes.total == size
    locked.seize()
    await bench.answer()
    cache.leave(locked)
    assert (bench.open_bytes.total, bench.cached.open_bytes) == (0, 0)


GROWING = [{"url": "http://target.test/", "body": ["${trigger.p}"] * 100}]


@pytest.mark.parametrize("size", [1_000, LARGE_BYTES])
@pytest.mark.parametrize("qos", [0, 1])
async def test_a_body_that_has_grown_takes_room_until_its_answer(qos: int, size: int) -> None:
    """From the decision on: others are decided while it is written."""
    bench, cache, locked = in_cache()
    await bench.create(request=GROWING, qos=qos)
    params = b'{"p":"%s"}' % (b"x" * size)
    assert isinstance(await bench.run(Triggered(params=params)), Started)
    (call,) = bench.calls()
    template = 100 * len('"${trigger.p}",') + 1
    grown = len(call.request.body or b"") - template - len(params)
    assert grown > 50 * size
    assert bench.open_bytes.total == grown + 2 * len(params)
    cache.leave(locked)
    assert bench.open_bytes.total == grown + 2 * len(params)
    locked.seize()
    await bench.answer()
    cache.leave(locked)
    assert bench.open_bytes.total == 0


async def test_a_body_that_has_grown_counts_after_a_crash(bench: Bench) -> None:
    """Its call is sent again, and is as large as before."""
    await bench.create(request=GROWING, qos=1)
    await bench.run(Triggered(params=b'{"p":"%s"}' % (b"x" * 1_000)))
    counted = weigh_open(bench.cached.document)
    later = Bench(bench.disk, boot=2)
    job = present(await later.turn.load(later.cached))
    assert weigh_open(job.document) == counted > 90_000


async def test_bodies_that_have_grown_are_limited_together(bench: Bench) -> None:
    """Those that find no room are refused, also where nobody's turn is durable yet."""
    many = [CachedJob(f"job-{number}") for number in range(60)]
    definition = describe(request=GROWING, qos=1)
    for cached in many:
        await bench.turn.run(cached, Command(Created(f"uid-{cached.job_id}", b"k" * 32), definition))
    bench.store.hold()
    event = Triggered(params=b'{"p":"%s"}' % (b"x" * 20_000))
    turns = [asyncio.ensure_future(bench.turn.run(cached, Command(event))) for cached in many]
    while bench.names().count("commit") + sum(map(asyncio.Task.done, turns)) < 2 * len(many):  # noqa: ASYNC110
        await asyncio.sleep(0)
    bench.store.release()
    await asyncio.gather(*turns)
    assert 38 <= len(bench.calls()) <= 42
    assert bench.open_bytes.total <= DEFAULT_LIMITS.open_bytes


async def test_a_job_that_is_dropped_takes_no_room(bench: Bench) -> None:
    """It is destroyed, or could not be loaded again."""
    cache = JobCache(most=9, most_bytes=1 << 20, open_bytes=bench.open_bytes)
    locked = present(cache.seize("job"))
    bench.open_bytes.note(locked.cached, 50)
    cache.leave(locked)
    assert (len(cache), bench.open_bytes.total) == (0, 0)


async def test_where_there_is_no_room_a_large_response_fails_its_step(bench: Bench) -> None:
    """And large parameters are refused; what other jobs keep counts (SPEC section 4)."""
    other = CachedJob("other")
    bench.open_bytes.note(other, DEFAULT_LIMITS.open_bytes - LARGE_BYTES)
    await _begin(bench, request=KEEPING)
    await bench.answer(body=b'"%s"' % (b"x" * LARGE_BYTES))
    assert [call.token.execute_number for call in bench.calls()] == [1]
    assert isinstance(await bench.run(Triggered(params=b'{"a":"%s"}' % (b"x" * LARGE_BYTES))), Refusal)
    bench.open_bytes.note(other, 0)
    assert isinstance(await bench.run(Triggered()), Started)
    await bench.answer(body=b'"%s"' % (b"x" * LARGE_BYTES))
    assert [call.token.execute_number for call in bench.calls()] == [1, 2, 2]


def large(size: int = LARGE_BYTES) -> Triggered:
    """A trigger with so many bytes of parameters."""
    return Triggered(params=b'{"a":"%s"}' % (b"x" * size))


async def test_a_delayed_trigger_with_large_parameters_waits_for_room(bench: Bench) -> None:
    """It was accepted: its job rings again until there is some. The job's own timer does not wait for it."""
    await bench.create(timer={"dueTime": "60s", "period": "60s"}, overlapPolicy="allow")
    later = START + 60 * SECOND
    await bench.run(replace(large(), planned_at=later))
    bench.open_bytes.note(bench.cached, 0)  # as `leave` does: it only waits
    other = CachedJob("other")
    bench.open_bytes.note(other, DEFAULT_LIMITS.open_bytes)
    bench.clock.advance(60 * SECOND)
    await bench.run(AlarmRang())
    assert [call.token.execute_number for call in bench.calls()] == [2]
    await bench.run(AlarmRang())
    assert len(bench.calls()) == 1
    assert bench.names()[-1] == "again"
    bench.open_bytes.note(other, 0)
    await bench.run(AlarmRang())
    assert [call.token.execute_number for call in bench.calls()] == [2, 1]


async def test_where_nothing_is_kept_everything_has_room() -> None:
    """Else what is larger than the limit would wait for ever."""
    counted = OpenBytes(most=100)
    one, other = CachedJob("one"), CachedJob("other")
    assert counted.admit(one, 101)
    assert not counted.admit(one, 102)
    assert not counted.admit(other, 1)
    assert counted.admit(one, 99)
    assert counted.admit(other, 1)


async def test_what_the_thread_decides_counts_before_the_next_is_taken() -> None:
    """Ten large answers at one moment: each decision counts before the next one is made."""
    counted = OpenBytes(most=20 * LARGE_BYTES)
    benches = [Bench(open_bytes=counted) for _ in range(10)]
    for bench in benches:
        await _begin(bench, request=KEEPING)
    body = b'"%s"' % (b"x" * 2 * LARGE_BYTES)
    await asyncio.gather(*(bench.answer(body=body) for bench in benches))
    kept = [len(bench.calls()) == 2 for bench in benches]
    assert (kept.count(True), counted.total) == (4, sum(bench.cached.open_bytes for bench in benches))
    assert 16 * LARGE_BYTES < counted.total < 20 * LARGE_BYTES


def in_cache() -> tuple[Bench, JobCache, LockedJob]:
    """A job that a cache has, and counts when it is left."""
    bench = Bench()
    cache = JobCache(most=9, most_bytes=1 << 20, open_bytes=bench.open_bytes)
    locked = present(cache.seize("job"))
    bench.cached = locked.cached
    return bench, cache, locked


async def test_many_responses_in_memory_alone_are_counted() -> None:
    """At qos 0 the store has nothing of them, and each context alone has little."""
    bench, cache, locked = in_cache()
    await bench.create(request=KEEPING, overlapPolicy="allow")
    for _ in range(3):
        await bench.run(Triggered())
        await bench.answer(body=b'"%s"' % (b"x" * 30_000))
        cache.leave(locked)
        locked.seize()
    assert bench.open_bytes.total == 3 * 2 * (30_002 + 2)
    for call in bench.calls()[1::2]:
        await bench.run(CallEnded(call.token, Answer(200)))
    cache.leave(locked)
    assert (bench.open_bytes.total, bench.cached.keeps_much) == (0, False)


async def test_the_last_event_of_a_report_is_counted_in_memory_alone() -> None:
    """What feedback says is kept for a final event, also at qos 0."""
    bench, cache, locked = in_cache()
    await bench.create(**{"async": True}, notification=[{"url": "http://caller.test/told"}])
    await bench.run(Triggered())
    await bench.answer()
    token = feedback_token(b"k" * 32, "uid1", 1)
    await bench.run(FeedbackArrived(1, token, {"data": "x" * 30_000}))
    cache.leave(locked)
    assert 60_000 < bench.open_bytes.total < 61_000
    locked.seize()
    await bench.run(FeedbackArrived(1, token, {"status": "succeed"}))
    cache.leave(locked)
    assert bench.open_bytes.total == 0


async def test_a_job_that_was_not_in_memory_fires_where_there_is_no_room(bench: Bench) -> None:
    """A usual one has nothing that would need any."""
    await bench.create(timer={"dueTime": "60s", "period": "60s"})
    bench.open_bytes.note(CachedJob("other"), 2 * DEFAULT_LIMITS.open_bytes)
    bench.cached.forget()
    bench.clock.advance(60 * SECOND)
    await bench.run(AlarmRang())
    assert len(bench.calls()) == 1


LABELS = {f"label-{number}": "x" for number in range(300)}


class Texts:
    """The definitions of a store, which counts how often they are read."""

    def __init__(self) -> None:
        self.kept: dict[int, bytes] = {}
        self.read: list[int] = []

    async def definition(self, uid: str, revision: int) -> bytes | None:
        """One of them."""
        self.read.append(revision)
        return self.kept.get(revision)


async def test_what_was_used_last_is_kept_as_far_as_there_is_room() -> None:
    """The bytes count, and not only the number."""
    texts = Texts()
    texts.kept = {revision: describe(labels=LABELS).text for revision in range(1, 5)}
    cache = ProgramCache(read=texts.definition, compiler=compile_stored, most_bytes=2 * weigh(texts.kept[1]))
    for revision in (1, 2, 1, 3, 1, 3, 2):
        assert list(await cache.load("job", "life", [revision])) == [revision]
    assert texts.read == [1, 2, 3, 2]
    assert cache.weight("life", [1, 2, 3]) == 2 * weigh(texts.kept[1])


async def test_one_that_is_too_large_is_kept_alone() -> None:
    """Until another one comes: its job is not compiled anew at each turn."""
    texts = Texts()
    texts.kept = {1: describe(labels=LABELS).text, 2: describe(maxRetries=3).text}
    cache = ProgramCache(read=texts.definition, compiler=compile_stored, most_bytes=1)
    await cache.load("job", "life", [1])
    await cache.load("job", "life", [1])
    await cache.load("job", "life", [2])
    await cache.load("job", "life", [1])
    assert texts.read == [1, 2, 1]


def test_a_usual_definition_is_not_counted() -> None:
    """The number of jobs in memory is bounded for them."""
    assert weigh(describe(jobName="x" * 100, labels={"team": "billing"}).text) < USUAL_BYTES / 2


@pytest.mark.parametrize(
    "members",
    [
        {"labels": LABELS},
        {"request": [{"url": "http://a.test/", "headers": {f"a{one}": "1" for one in range(900)}}]},
        {"request": [{"url": "http://a.test/", "body": ["${jobId}", *[[]] * 10_000]}]},
        {"request": [{"url": "http://a.test/", "body": ["${jobId}", *[{"a": {}}] * 5_000]}]},
        {"request": [{"url": "http://a.test/", "body": ["${jobId}", *range(20_000)]}]},
        {"request": [{"url": f"http://a.test/{one}"} for one in range(400)]},
        {"notification": [{"url": f"http://a.test/{one}"} for one in range(90)]},
        {"retry": [{"errorEquals": [str(one) for one in range(3_000)]}]},
        # Short ones, of which all marks count alike:
        {"request": [{"url": "http://a.test/", "headers": {f"a{one}": "1" for one in range(60)}}]},
        {"request": [{"url": "http://a.test/", "body": ["${jobId}", *[[]] * 200]}]},
        {"request": [{"url": f"http://a.test/{one}"} for one in range(20)]},
    ],
)
def test_the_weight_is_about_what_memory_says(members: dict[str, Any]) -> None:
    """No less than a quarter of it, for what compiles to much more than its text."""
    text = json.dumps(json.loads(describe(**members).text), separators=(",", ":")).encode()
    compile_text(text)  # what the first one leaves in caches is not its own
    gc.freeze()  # the collection below looks at what is compiled alone
    tracemalloc.start()
    try:
        program = compile_text(text)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert program.job_id == "job"
    assert taken / 4 < weigh(text) + USUAL_BYTES < taken * 8
