"""What open executions keep in memory is counted, job by job, and has a limit."""

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
)
from scheduler_service.domain.events import AlarmRang, Triggered
from scheduler_service.domain.execution import ExecutionState, TriggeredBy
from scheduler_service.domain.parts import Part, PartEnd
from scheduler_service.domain.replies import Refusal, Started
from scheduler_service.domain.wire import OutboundRequest
from scheduler_service.hosts.job_cache import CachedJob, JobCache
from scheduler_service.hosts.open_bytes import OpenBytes, weigh_open
from scheduler_service.language.values import LARGE_BYTES
from tests.unit.hosts.house import START
from tests.unit.hosts.turn_rig import Bench

pytestmark = pytest.mark.anyio

URL = "http://target.test/run"
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
            8,
        ),
    ],
)
async def test_all_bodies_of_open_executions_are_weighed(phase: Phase, size: int) -> None:
    """Parameters, what a replay brought and responses, twice each; the last event, and parts."""
    kept = (Kept(200, URL, b"x" * 200), Kept(200, URL))
    assert weigh_open(await document(phase)) == 120 + size
    assert weigh_open(await document(phase, responses=kept, told=LastEvent("200", b"x" * 9))) == 529 + size
    assert weigh_open(None) == 0


def test_the_sum_is_over_jobs() -> None:
    """Each counts with what was noted of it last."""
    counted = OpenBytes(most=100)
    one, other = CachedJob("one"), CachedJob("other")
    counted.note(one, 60)
    counted.note(other, 50)
    assert (counted.total, counted.room) == (110, -10)
    counted.note(one, 0)
    assert (counted.total, counted.room, one.open_bytes, other.open_bytes) == (50, 50, 0, 50)


async def _begin(bench: Bench, **members: Any) -> None:
    await bench.create(**members)
    assert isinstance(await bench.run(Triggered()), Started)


@pytest.mark.parametrize("qos", [0, 1])
async def test_a_kept_response_takes_room_until_its_execution_ends(qos: int) -> None:
    """From the decision on: others are decided while it is written."""
    bench = Bench()
    cache = JobCache(most=9, most_bytes=1 << 20, open_bytes=bench.open_bytes)
    locked = cache.seize("job")
    assert locked is not None
    bench.cached = locked.cached
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


async def test_a_job_that_is_dropped_takes_no_room() -> None:
    """It is destroyed, or could not be loaded again."""
    bench = Bench()
    cache = JobCache(most=9, most_bytes=1 << 20, open_bytes=bench.open_bytes)
    locked = cache.seize("job")
    assert locked is not None
    bench.open_bytes.note(locked.cached, 50)
    cache.leave(locked)
    assert (len(cache), bench.open_bytes.total) == (0, 0)


async def test_where_there_is_no_room_a_large_response_fails_its_step() -> None:
    """And large parameters are refused; what other jobs keep counts (SPEC section 4)."""
    bench = Bench()
    other = CachedJob("other")
    bench.open_bytes.note(other, bench.open_bytes.room - LARGE_BYTES)
    await _begin(bench, request=KEEPING)
    await bench.answer(body=b'"%s"' % (b"x" * LARGE_BYTES))
    assert [call.token.execute_number for call in bench.calls()] == [1]
    assert isinstance(await bench.run(Triggered(params=b'{"a":"%s"}' % (b"x" * LARGE_BYTES))), Refusal)
    bench.open_bytes.note(other, 0)
    assert isinstance(await bench.run(Triggered()), Started)
    await bench.answer(body=b'"%s"' % (b"x" * LARGE_BYTES))
    assert [call.token.execute_number for call in bench.calls()] == [1, 2, 2]


async def test_a_delayed_trigger_with_large_parameters_waits_for_room() -> None:
    """It was accepted: its job rings again until there is some. Small ones do not wait."""
    bench = Bench()
    await bench.create()
    later = START + 60 * SECOND
    await bench.run(Triggered(params=b'{"a":"%s"}' % (b"x" * LARGE_BYTES), planned_at=later))
    other = CachedJob("other")
    bench.open_bytes.note(other, bench.open_bytes.room)
    bench.clock.advance(60 * SECOND)
    await bench.run(AlarmRang())
    assert bench.calls() == []
    assert bench.names()[-1] == "again"
    bench.open_bytes.note(other, 0)
    await bench.run(AlarmRang())
    assert len(bench.calls()) == 1
