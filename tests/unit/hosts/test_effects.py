"""Effects start after the commit."""

import asyncio

import pytest

from scheduler_service.domain.events import Triggered
from scheduler_service.domain.replies import Started
from tests.unit.hosts.turn_rig import Bench

pytestmark = pytest.mark.anyio


async def test_no_effect_and_no_record_leaves_before_the_commit() -> None:
    """An effect before its commit would be a lie."""
    bench = Bench()
    await bench.create()
    bench.store.hold()
    turn = asyncio.create_task(bench.run(Triggered()))
    for _ in range(10):
        await asyncio.sleep(0)
    assert bench.effects == []
    assert bench.history.batches == []
    bench.store.release()
    assert isinstance(await turn, Started)
    assert len(bench.calls()) == 1
    assert bench.names()[-6:] == ["expect", "commit", "written", "history", "act", "arm"]
    assert [durable for _, durable in bench.history.batches] == [True]
