"""`GET /nodes` of one service (SPEC sections 10 and 14)."""

from datetime import datetime

import pytest

from tests.wire.service import START, World, data_of

pytestmark = pytest.mark.anyio


async def test_a_node_shows_when_it_started(world: World) -> None:
    """Not when it was asked first; its heartbeat is the present moment."""
    for asked_after in (60, 120):
        await world.advance(60)
        [node] = data_of(await world.client.get("/nodes"))["items"]
        started, seen = (
            datetime.fromisoformat(node[name]).timestamp() for name in ("startedAt", "lastHeartbeat")
        )
        assert (started, seen) == (START / 1_000, START / 1_000 + asked_after)
