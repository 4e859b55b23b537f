"""A service is killed in the middle of an operation, which is then sent again (SPEC section 10)."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.wire.processes.process import Process, serve

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]
MANY = 600
BODY = {"action": "trigger", "select": {"filter": {}}}
KEY = {"Idempotency-Key": "all-of-them"}


def jobs() -> list[dict[str, Any]]:
    """Jobs that fail at once: nothing listens there."""
    common = {"jobName": "one", "timer": {"period": "external"}, "request": [{"url": "http://127.0.0.1:9/"}]}
    return [{"jobId": f"j{number}", **common} for number in range(MANY)]


async def until(look: Callable[[], Awaitable[Any]]) -> Any:
    """What `look` gives once it is true."""
    async with asyncio.timeout(60):
        while not (found := await look()):  # noqa: ASYNC110 - it is about another process
            await asyncio.sleep(0.01)
    return found


async def start(folder: Path, client: httpx.AsyncClient, ended: ExitStack) -> Process:
    """The service over this folder."""
    process = ended.enter_context(serve(folder / "data"))
    client.base_url = httpx.URL(await asyncio.to_thread(process.wait_for_url))
    return process


async def test_a_killed_service_goes_on_with_an_operation_that_is_sent_again(tmp_path: Path) -> None:
    """What was done is done; it is interrupted; under its key the rest is done, and no job runs twice."""
    caller = httpx.AsyncClient(trust_env=False, timeout=60)
    with ExitStack() as processes:
        async with caller as client:
            process = await start(tmp_path, client, processes)
            assert (await client.post("/jobs", json=jobs())).is_success
            begun = (await client.post("/bulk/jobs", json=BODY, headers=KEY)).json()["data"]["operation"]
            path = f"/operations/{begun['operationId']}"

            async def operation() -> dict[str, Any]:
                data: dict[str, Any] = (await client.get(path)).json()["data"]
                return data

            async def is_under_way() -> bool:
                return (await operation())["done"] > 0

            async def ended() -> dict[str, Any] | None:
                found = await operation()
                return None if found["state"] == "running" else found

            await until(is_under_way)
            process.send(signal.SIGKILL)
            await asyncio.to_thread(process.popen.wait, 30)
            process = await start(tmp_path, client, processes)
            assert (await until(ended))["state"] == "interrupted"
            again = (await client.post("/bulk/jobs", json=BODY, headers=KEY)).json()["data"]["operation"]
            assert again["operationId"] == begun["operationId"]
            whole = await until(ended)
            assert (whole["state"], whole["succeeded"], whole["failed"]) == ("done", MANY, 0)
            items, cursor = [], ""
            while cursor is not None:
                page = (await client.get(f"/jobs?limit=500{cursor and '&cursor=' + cursor}")).json()["data"]
                items += page["items"]
                cursor = page["nextCursor"]
            assert [item["executeNumber"] for item in items] == [1] * MANY
            assert await asyncio.to_thread(process.stop) == 0
