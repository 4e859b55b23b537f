"""Attacks by what a target's answers say."""

from collections.abc import AsyncIterator

from tests.attack.service import job
from tests.attack.target import saying
from tests.bench.attacks.registry import Scene, attack

JOBS = 150
LENGTH = 300_000


@attack("fields")
async def long_fields(scene: Scene) -> AsyncIterator[None]:
    """150 jobs whose checks are answered with 300 KB of `error`, `progress` and `message` each."""
    text = "x" * LENGTH
    answer = {"status": "", "error": text, "progress": text, "message": text}
    target = await scene.stage.server(saying(answer))
    for number in range(JOBS):
        check = {"url": f"{target.url}/check"}
        definition = {"async": True, "checkUrl": check, "checkRateSeconds": 1}
        await scene.service.create(job(f"long-{number}", f"{target.url}/run", **definition))
    yield
