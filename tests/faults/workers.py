"""Workers that claim from a queue, are killed at random, and remember what they were told."""

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from typing import Any

import httpx

PART = tuple[str, int, int]
"""Execution, attempt, index."""


class Book:
    """What all workers of a test were given, and which of their completions were accepted."""

    def __init__(self) -> None:
        self.claims: dict[PART, list[str]] = defaultdict(list)
        self.accepted: dict[PART, set[str]] = defaultdict(set)
        self.holders: dict[str, str] = {}
        self.late: list[tuple[str, float]] = []
        self.refused = 0
        self.killed = 0
        self.starts = 0

    def take(self, item: dict[str, Any], instance: str) -> None:
        """A part was claimed."""
        item["starts"] = self.starts
        self.claims[part_of(item)].append(item["lease"])
        assert item["lease"] not in self.holders, "a lease is one instance's"
        self.holders[item["lease"]] = instance


def part_of(item: dict[str, Any]) -> PART:
    """Which part an item is."""
    return item["executionId"], item["requestCounts"], item["shardIndex"]


class Crowd:
    """Workers that go on until they are stopped; `base` says where the service is at present."""

    def __init__(self, *, book: Book, base: Callable[[], str], chance: random.Random) -> None:
        self.book = book
        self._base = base
        self._chance = chance
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._client = httpx.AsyncClient(timeout=10, trust_env=False, verify=False)

    async def start(self, count: int) -> None:
        """As many workers."""
        for number in range(count):
            self._begin(f"worker-{number}")

    async def kill_one(self) -> None:
        """One of them dies where it stands; another one with its name is there at once."""
        name = self._chance.choice(sorted(self._workers))
        task = self._workers.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        self.book.killed += 1
        self._begin(name)

    async def stop(self) -> None:
        """All of them die. Raises what one of them met with."""
        for task in self._workers.values():
            task.cancel()
        ends = await asyncio.gather(*self._workers.values(), return_exceptions=True)
        await self._client.aclose()
        for end in ends:
            if isinstance(end, Exception):
                raise end

    def _begin(self, name: str) -> None:
        self._workers[name] = asyncio.create_task(self._work(name))

    async def _work(self, name: str) -> None:
        while True:
            asked = {"instanceId": name, "max": self._chance.randint(1, 4), "waitSeconds": 1}
            answer = await self._ask("/queues/work/claim", asked)
            items = answer.json()["data"]["items"] if answer is not None else []
            for item in items:
                self.book.take(item, name)
            for item in items:
                await self._do(item)
            if answer is None:
                await asyncio.sleep(0.05)

    async def _do(self, item: dict[str, Any]) -> None:
        """Works on a part: mostly short, now and then past its lease, with or without renewals."""
        kind = self._chance.random()
        if kind < 0.02:
            await asyncio.sleep(1.2)  # it forgets to renew
        elif kind < 0.06:
            for _ in range(3):
                await asyncio.sleep(0.4)
                await self._renew(item)
        else:
            await asyncio.sleep(self._chance.random() * 0.01)
        await self._complete(item)

    async def _renew(self, item: dict[str, Any]) -> None:
        answer = await self._ask(f"/leases/{item['lease']}/renew", {})
        if answer is not None and answer.status_code == 200:
            item["leaseUntil"] = answer.json()["data"]["leaseUntil"]

    async def _complete(self, item: dict[str, Any]) -> None:
        for _ in range(20):
            sent = time.time()
            answer = await self._ask(f"/leases/{item['lease']}/complete", {"status": "succeed"})
            if answer is None:
                await asyncio.sleep(0.1)
                continue
            if answer.status_code == 200:
                self.book.accepted[part_of(item)].add(item["lease"])
                # A start gives leases their whole length again: nobody has told the worker of it.
                if sent > _seconds(item["leaseUntil"]) and item["starts"] == self.book.starts:
                    self.book.late.append((item["lease"], sent))
            else:
                assert answer.json()["errors"][0]["code"] in ("lease_lost", "unknown", "unavailable"), (
                    answer.text
                )
                self.book.refused += 1
            return

    async def _ask(self, path: str, body: dict[str, Any]) -> httpx.Response | None:
        """The answer; None where nobody is there."""
        try:
            answer = await self._client.post(self._base() + path, json=body)
        except httpx.TransportError:
            return None
        return None if answer.status_code == 503 else answer


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
