"""Attacks by what a target's answers say."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.attack.service import job
from tests.attack.target import saying
from tests.bench.attacks.registry import Scene, attack

JOBS = 150
LENGTH = 300_000
KEPT_JOBS, KEPT_STEPS, KEPT_LENGTH = 500, 4, 500_000
TOLD_JOBS, TOLD_LENGTH = 100, 1_000_000
KEPT_AHEAD = 6.0


@attack("fields")
async def long_fields(scene: Scene) -> AsyncIterator[None]:
    """150 jobs whose checks are answered with 300 KB of `error`, `progress` and `message` each."""
    text = "x" * LENGTH
    await _answer_checks(scene, {"status": "", "error": text, "progress": text, "message": text})
    yield


@attack("values")
async def many_values(scene: Scene) -> AsyncIterator[None]:
    """150 jobs whose checks are answered with 900 KB of `[{},{},…]` beside the status."""
    await _answer_checks(scene, {"status": "", "data": [{}] * (3 * LENGTH // len("{}, "))})
    yield


async def _answer_checks(scene: Scene, answer: dict[str, Any]) -> None:
    """Jobs that are checked every second, all at one moment."""
    target = await scene.stage.server(saying(answer))
    for number in range(JOBS):
        check = {"url": f"{target.url}/check"}
        definition = {"async": True, "checkUrl": check, "checkRateSeconds": 1}
        await scene.service.create(job(f"long-{number}", f"{target.url}/run", **definition))


@attack("told")
async def notified_checks(scene: Scene) -> AsyncIterator[None]:
    """100 jobs of qos 1 whose checks are answered with 1 MB twice a second, each of which is notified."""
    target = await scene.stage.server(saying({"status": "", "data": "x" * TOLD_LENGTH}))
    others = await scene.stage.server(saying({}))
    jobs = [
        job(
            f"told-{number}", f"{others.url}/run", qos=1, checkUrl=f"{target.url}/check", checkRateSeconds=0.5
        )
        | {"async": True, "notification": [{"url": f"{others.url}/told"}]}
        for number in range(TOLD_JOBS)
    ]
    answer = await scene.service.run.ask("POST", "/jobs", json=jobs)
    assert answer.status_code == 200, answer.text
    yield


@attack("kept")
async def kept_responses(scene: Scene) -> AsyncIterator[None]:
    """500 jobs at one moment, each with four answers of 500 KB that its last step needs."""
    target = await scene.stage.server(saying({"text": "x" * KEPT_LENGTH}))
    texts = [f"${{responses[{number}].text}}" for number in range(KEPT_STEPS)]
    last = {"url": f"{target.url}/last", "body": texts}
    steps = [*({"url": f"{target.url}/{number}"} for number in range(KEPT_STEPS)), last]
    due = datetime.now(UTC) + timedelta(seconds=KEPT_AHEAD)
    timer = {"dueTime": due.isoformat(timespec="seconds")}
    jobs = [job(f"kept-{number}", "", request=steps, timer=timer) for number in range(KEPT_JOBS)]
    answer = await scene.service.run.ask("POST", "/jobs", json=jobs)
    assert answer.status_code == 200, answer.text
    yield
