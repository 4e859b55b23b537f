"""A target in a test's hand: what it answers next, and what was sent to it."""

import asyncio
from collections import deque

from scheduler_service.domain.wire import Answer, OutboundRequest, Outcome
from scheduler_service.ports import Sender
from tests.unit.hosts.memory_store import Entry


class ScriptedSender(Sender):
    """Answers by script, per URL; 200 where there is none. A held URL answers when it is released.

    A request that goes to an instance is known by the instance's address.
    """

    def __init__(self, journal: list[Entry]) -> None:
        self.journal = journal
        self.requests: list[OutboundRequest] = []
        self.script: dict[str, deque[Outcome]] = {}
        self._gates: dict[str, asyncio.Event] = {}

    def answers(self, url: str, *outcomes: Outcome | int) -> None:
        """What `url` answers next; a number is a status."""
        line = self.script.setdefault(url, deque())
        line.extend(Answer(one) if isinstance(one, int) else one for one in outcomes)

    def hold(self, url: str) -> None:
        """Nobody answers there for now."""
        self._gates[url] = asyncio.Event()

    def release(self, url: str) -> None:
        """They answer again."""
        self._gates.pop(url).set()

    async def send(self, request: OutboundRequest) -> Outcome:
        place = request.base or request.url
        self.journal.append(("send", place))
        self.requests.append(request)
        gate = self._gates.get(place)
        if gate is not None:
            await gate.wait()
        line = self.script.get(place)
        return line.popleft() if line else Answer(200, body=b"{}")

    async def close(self) -> None:
        return None

    def urls(self) -> list[str]:
        """Where requests went, in order."""
        return [request.base or request.url for request in self.requests]
