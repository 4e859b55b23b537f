"""Jobs of one plain request, and waiting for what becomes of them."""

from typing import Any

from tests.faults.processes import Caller, Run
from tests.faults.stories import JOB, TERMINAL, in_full
from tests.faults.target import Target


def plain(target: Target, **members: Any) -> dict[str, Any]:
    """A job of one step."""
    base: dict[str, Any] = {
        "jobId": "job", "jobName": "drained", "creator": "1", "creatorName": "one",
        "timer": {"period": "external"}, "request": [{"url": f"{target.url}/one"}],
    }  # fmt: skip
    return base | members


async def begin(run: Run, definition: dict[str, Any]) -> None:
    """Creates the job in a service that has come up."""
    assert await run.is_up(), run.message
    answer = await run.ask("POST", JOB, json=definition)
    assert answer.status_code == 201, answer.text


async def ended(run: Caller, count: int) -> list[dict[str, Any]]:
    """The executions, when there are `count` and all have ended."""

    async def look() -> bool:
        items = (await run.read(f"{JOB}/executions", limit=500))["items"]
        return len(items) >= count and all(one["state"] in TERMINAL for one in items)

    await run.until(look, f"{count} executions have ended")
    return await in_full(run)


async def asked(target: Target, count: int) -> bool:
    return len(target.seen) >= count
