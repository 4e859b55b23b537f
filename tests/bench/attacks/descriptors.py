"""Attacks on the descriptors of a service."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

from tests.attack.client import many_clients
from tests.attack.service import job
from tests.attack.target import held
from tests.bench.attacks.registry import Scene, attack

TARGETS = 3
EACH = 600
SECONDS = 6
SILENT = 1_100
FEW = {"NOFILE": (1_024, 1_024)}


@attack("slow_targets", limits=FEW)
async def slow_targets(scene: Scene) -> AsyncIterator[None]:
    """Three targets that take 6 s, with 600 calls each at one moment, over 1,024 descriptors."""
    for number in range(TARGETS):
        target = await scene.stage.server(held(partial(asyncio.sleep, SECONDS)))
        jobs = [job(f"slow-{number}-{one}", target.url) for one in range(EACH)]
        answer = await scene.service.run.ask("POST", "/jobs", json=jobs)
        assert answer.is_success, answer.text
    yield


@attack("silent_callers", limits=FEW)
async def silent_callers(scene: Scene) -> AsyncIterator[None]:
    """1,100 connections that say nothing, over 1,024 descriptors."""
    async with many_clients(scene.service.url, SILENT):
        yield
