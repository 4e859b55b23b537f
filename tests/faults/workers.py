"""Workers that claim from a queue, are killed at random, and remember what they were told."""

import asyncio
import json
import random
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

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
        self._grown = asyncio.Event()

    def accept(self, item: dict[str, Any]) -> None:
        """The completion of a part was accepted."""
        self.accepted[part_of(item)].add(item["lease"])
        self._grown.set()

    async def reach(self, count: int) -> None:
        """Returns at once when the completions of so many parts are accepted."""
        while len(self.accepted) < count:
            self._grown.clear()
            await self._grown.wait()

    def take(self, item: dict[str, Any], instance: str) -> None:
        """A part was claimed."""
        item["starts"] = self.starts
        self.claims[part_of(item)].append(item["lease"])
        assert item["lease"] not in self.holders, "a lease is one instance's"
        self.holders[item["lease"]] = instance

    def figures(self) -> dict[str, int]:
        """What came of it, in numbers."""
        return {
            "parts": len(self.claims),
            "claims": len(self.holders),
            "accepted": len(self.accepted),
            "refused": self.refused,
            "workers killed": self.killed,
            "scheduler killed": self.starts // 2,
        }


def part_of(item: dict[str, Any]) -> PART:
    """Which part an item is."""
    return item["executionId"], item["requestCounts"], item["shardIndex"]


class Answer(NamedTuple):
    """Status and body of an answer."""

    status: int
    body: Any


class Line:
    """A worker's own connection, which is gone with it. `base` says where the service is at present."""

    def __init__(self, base: Callable[[], str]) -> None:
        self._base = base
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, path: str, body: dict[str, Any]) -> Answer | None:
        """The answer; None where nobody is there, or can say."""
        try:
            async with asyncio.timeout(10):
                answer = await self._ask(path, json.dumps(body).encode())
        except (OSError, EOFError):
            self.close()
            return None
        return None if answer.status == 503 else answer

    def close(self) -> None:
        """Hangs up."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    async def _ask(self, path: str, body: bytes) -> Answer:
        if self._writer is None:
            at = urlsplit(self._base())
            self._reader, self._writer = await asyncio.open_connection(at.hostname, at.port)
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        found = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(found.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return Answer(int(found.split(b" ", 2)[1]), json.loads(await self._reader.readexactly(length)))


class Crowd:
    """Workers that go on until they are stopped; `base` says where the service is at present."""

    def __init__(self, *, book: Book, base: Callable[[], str], chance: random.Random) -> None:
        self.book = book
        self._base = base
        self._chance = chance
        self._workers: dict[str, asyncio.Task[None]] = {}

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
        for end in ends:
            if isinstance(end, Exception):
                raise end

    def _begin(self, name: str) -> None:
        self._workers[name] = asyncio.create_task(self._work(name))

    async def _work(self, name: str) -> None:
        line = Line(self._base)
        try:
            while True:
                await self._claim(name, line)
        finally:
            line.close()

    async def _claim(self, name: str, line: Line) -> None:
        asked = {"instanceId": name, "max": self._chance.randint(1, 4), "waitSeconds": 1}
        answer = await line.ask("/queues/work/claim", asked)
        items = answer.body["data"]["items"] if answer is not None else []
        for item in items:
            self.book.take(item, name)
        for item in items:
            await self._do(item, line)
        if answer is None:
            await asyncio.sleep(0.05)

    async def _do(self, item: dict[str, Any], line: Line) -> None:
        """Works on a part: mostly short, now and then past its lease, with or without renewals."""
        kind = self._chance.random()
        if kind < 0.02:
            await asyncio.sleep(1.2)  # it forgets to renew
        elif kind < 0.06:
            for _ in range(3):
                await asyncio.sleep(0.4)
                await self._renew(item, line)
        else:
            await asyncio.sleep(self._chance.random() * 0.01)
        await self._complete(item, line)

    async def _renew(self, item: dict[str, Any], line: Line) -> None:
        answer = await line.ask(f"/leases/{item['lease']}/renew", {})
        if answer is not None and answer.status == 200:
            item["leaseUntil"] = answer.body["data"]["leaseUntil"]

    async def _complete(self, item: dict[str, Any], line: Line) -> None:
        for _ in range(20):
            sent = time.time()
            answer = await line.ask(f"/leases/{item['lease']}/complete", {"status": "succeed"})
            if answer is None:
                await asyncio.sleep(0.1)
                continue
            if answer.status == 200:
                self.book.accept(item)
                # A start gives leases their whole length again: nobody has told the worker of it.
                if sent > _seconds(item["leaseUntil"]) and item["starts"] == self.book.starts:
                    self.book.late.append((item["lease"], sent))
            else:
                assert answer.body["errors"][0]["code"] in ("lease_lost", "unknown", "unavailable"), (
                    answer.body
                )
                self.book.refused += 1
            return


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
