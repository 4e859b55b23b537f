"""Requests about many jobs as large as they may be, and questions about operations without a pause."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.attack.bystander import open_bystander
from tests.attack.client import get, open_client, post
from tests.attack.service import Service, fill, open_service

pytestmark = pytest.mark.timeout(120)
CALLERS = 12
ROUNDS = 2
LETTERS = 1_000_000


def _bulk(path: str, action: str, **select: object) -> bytes:
    return post(path, json.dumps({"action": action, "select": select}).encode())


def _attacks() -> list[bytes]:
    """Names and filters of a MiB, and what there is of operations."""
    names = [f"none-{number}" for number in range(LETTERS // 14)]
    return [
        _bulk("/bulk/jobs", "pause", jobIds=names),
        _bulk("/bulk/jobs", "pause", jobIds=names[:5_000]),
        _bulk("/bulk/executions", "cancel", executionIds=names),
        _bulk("/bulk/jobs", "pause", filter={"label": [f"a:{name}" for name in names[: LETTERS // 20]]}),
        _bulk("/bulk/jobs", "pause", filter={"search": "x" * LETTERS}),
        _bulk("/bulk/jobs", "pause", filter=dict.fromkeys(names[: LETTERS // 20], "x")),
        *[get("/operations/none"), get(f"/operations/{'x' * 250}")] * 20,
    ]


async def _send(service: Service, asked: list[bytes]) -> set[int]:
    async with open_client(service.url) as client:
        found = set()
        for request in asked:
            await client.say(request)
            found.add((await client.answer())[0])
        return found


@pytest.mark.long
async def test_selections_at_full_length(tmp_path: Path) -> None:
    """Refused, done for what there is, or told to wait; the others go on, within 300 MiB."""
    asked = _attacks()
    async with (
        open_service(tmp_path / "data") as service,
        open_bystander(service) as bystander,
    ):
        await fill(service, 50)
        found = await asyncio.gather(*(_send(service, asked * ROUNDS) for _ in range(CALLERS)))
        await bystander.check()
    statuses = set().union(*found)
    assert statuses <= {200, 202, 404, 413, 422, 429, 503}, statuses
    assert {202, 404, 422} <= statuses, statuses
