"""A target in a test's hand: what it answers next, and what was sent to it."""

import asyncio
from collections import deque

from scheduler_service.domain.wire import Answer, OutboundRequest, Outcome
from scheduler_service.ports.sending import MayGo, NotSent, Sender, always
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
        self._walls: dict[str, asyncio.Event] = {}

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

    def wall_off(self, url: str) -> None:
        """No connection comes about there for now; `open_up` lets those through that wait."""
        self._walls[url] = asyncio.Event()

    def open_up(self, url: str) -> None:
        """Connections come about again."""
        self._walls.pop(url).set()

    def take_down(self, url: str) -> asyncio.Event:
        """Connections come about again for those that come from now on; the event lets the others through."""
        return self._walls.pop(url)

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        place = request.base or request.url
        if place in self._walls:
            await self._walls[place].wait()
        if not may_go():
            raise NotSent
        self.journal.append(("send", place))
        self.requests.append(request)
        send_guard = self._gates.get(place)
        if send_guard is not None:
            await send_guard.wait()
        line = self.script.get(place)
        return line.popleft() if line else Answer(200, body=b"{}")

    async def close(self) -> None:
        return None

    def urls(self) -> list[str]:
        """Where requests went, in order."""
        return [request.base or request.url for request in self.requests]
