"""`GET /nodes` of one service (SPEC sections 10 and 14)."""

import os
import platform
import sqlite3
from datetime import datetime

from scheduler_service.app.data_folder import known_formats
from scheduler_service.telemetry.metrics.own_process import process_age
from tests.wire.service import START, World, data_of


async def test_a_node_shows_when_it_started(world: World) -> None:
    """The start of the process, whenever it is asked; its heartbeat is the present moment."""
    shown = []
    for asked_after in (60, 120):
        await world.advance(60)
        [node] = data_of(await world.client.get("/nodes"))["items"]
        assert datetime.fromisoformat(node["lastHeartbeat"]).timestamp() == START / 1_000 + asked_after
        shown.append(node["startedAt"])
    assert len(set(shown)) == 1
    age = START / 1_000 - datetime.fromisoformat(shown[0]).timestamp()
    assert 0 < age <= process_age() / 1_000


async def test_a_node_shows_its_process_and_what_it_stands_on(world: World) -> None:
    """The figures of the node are the sums over its processes."""
    [node] = data_of(await world.client.get("/nodes"))["items"]
    [process] = node["processes"]
    assert (process["shard"], process["pid"], process["state"]) == (0, os.getpid(), "running")
    assert (process["jobsHeld"], process["startedAt"]) == (node["jobsHeld"], node["startedAt"])
    assert process["loopHeldMs"] >= 0
    assert node["versions"]["python"] == platform.python_version()
    assert node["versions"]["sqlite"] == sqlite3.sqlite_version
    assert node["versions"]["punctual"] == node["version"]
    assert node["formats"] == {name: known_formats()[name] for name in ("state", "history")}
