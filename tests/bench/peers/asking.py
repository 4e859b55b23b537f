"""How the peers on asyncio post: one aiohttp session with connections that stay open."""

from typing import Any

import aiohttp

from tests.bench.peers.task import Task, body, headers

CONNECTIONS = 100


class Caller:
    """Posts the steps of a job, one after the other. To be made in the loop that runs it."""

    def __init__(self, task: Task) -> None:
        connector = aiohttp.TCPConnector(limit=CONNECTIONS, keepalive_timeout=120)
        self._session = aiohttp.ClientSession(connector=connector)
        self._url = f"{task.target}/run"
        self._steps = task.steps

    async def run(self, n: int) -> None:
        """Job n: as many posts as it has steps; an answer's number goes into the next one."""
        number = 1
        for step in range(self._steps):
            sent = self._session.post(self._url, data=body(number), headers=headers(n))
            async with sent as answer:
                answer.raise_for_status()
                if step + 1 < self._steps:
                    number = (await _read(answer))["n"]
                else:
                    await answer.read()


async def _read(answer: aiohttp.ClientResponse) -> dict[str, Any]:
    found: dict[str, Any] = await answer.json()
    return found
