"""Those who ask: they repeat what they may, wait through every downtime, and remember what was answered."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from scheduler_service.domain.replies import Recalled, Reply, Started
from scheduler_service.domain.turn_events import (
    Activated,
    CancelRequested,
    Created,
    Destroyed,
    Event,
    FeedbackArrived,
    Paused,
    Triggered,
    Updated,
)
from scheduler_service.ports.delivery import Command, Definition
from scheduler_service.ports.state import Remembered
from tests.simulation.jobs import BEGIN, Ask, JobPlan
from tests.unit.hosts.house import compile_text

PAUSE_SECONDS = 0.3


class NoAnswer(Exception):
    """The connection broke, or nobody is there, or what came was a 503; what was asked for may be done."""


class Asked(msgspec.Struct):
    """What was asked of a job, when, and what was answered when; moments of the world in ms.

    `wall` is what the wall clock said when it was asked.
    """

    job_id: str
    ask: Ask
    asked_at: int
    wall: int
    answered_at: int | None = None
    reply: Reply | None = None
    times: int = 0
    event: FeedbackArrived | None = None

    @property
    def number(self) -> int | None:
        """The execution that an accepted trigger has got."""
        return self.reply.execute_number if isinstance(self.reply, Started) else None


Deliver = Callable[[str, Command], Awaitable[Reply]]


class Callers:
    """All of them. `deliver` raises NoAnswer; `now` is the moment of the world, `wall` the wall clock."""

    def __init__(
        self,
        *,
        deliver: Deliver,
        now: Callable[[], int],
        wall: Callable[[], int],
        note: Callable[[str, str], None],
    ) -> None:
        self._deliver = deliver
        self._now = now
        self._wall = wall
        self._note = note
        self.asked: list[Asked] = []

    async def play(self, plan: JobPlan) -> None:
        """Asks for everything in its order, one after the other."""
        for serial, ask in enumerate(plan.asks):
            await asyncio.sleep(max(ask.at - self._now(), 0) / 1_000)
            asked = Asked(plan.job_id, ask, self._now(), self._wall())
            self.asked.append(asked)
            command = self._command(plan, ask, serial)
            asked.reply = await self._ask(asked, command, ask.has_key)
            asked.answered_at = None if asked.reply is None else self._now()
            self._note("caller", f"{plan.job_id} {ask.what} {ask.option} → {asked.reply}")

    async def report(self, job_id: str, event: FeedbackArrived) -> None:
        """A target reports until it is answered."""
        asked = Asked(job_id, Ask(self._now(), "feedback"), self._now(), self._wall(), event=event)
        asked.reply = await self._ask(asked, Command(event), True)
        asked.answered_at = self._now()
        self.asked.append(asked)
        self._note("target", f"{job_id} feedback {event.request_counts} {event.body} → {asked.reply}")

    async def _ask(self, asked: Asked, command: Command, repeats: bool) -> Reply | None:
        while True:
            asked.times += 1
            try:
                reply = await self._deliver(asked.job_id, command)
            except NoAnswer:
                if not repeats:
                    return None
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if isinstance(reply, Recalled):
                return msgspec.json.decode(reply.answer, type=Started)
            return reply

    def _command(self, plan: JobPlan, ask: Ask, serial: int) -> Command:
        event = self._event(plan, ask)
        if isinstance(event, Created | Updated):
            members: dict[str, Any] = plan.definition
            if ask.what == "update":
                members = members | {"jobDescription": f"update {serial}"}
            text = json.dumps(members).encode()
            return Command(event, Definition(text, compile_text(text)))
        if isinstance(event, Triggered) and ask.has_key:
            kept = Remembered(f"trigger/{plan.job_id}", f"key{serial}", b"", b"", self._wall())
            return Command(event, remembered=kept, answer=msgspec.json.encode)
        return Command(event)

    def _event(self, plan: JobPlan, ask: Ask) -> Event:
        match ask.what:
            case "create":
                return Created("", b"")
            case "update":
                return Updated(0)
            case "pause":
                return Paused(drain=ask.option == "drain")
            case "activate":
                return Activated(ask.option)
            case "destroy":
                return Destroyed()
            case "cancel":
                return CancelRequested(self._newest(plan.job_id))
        is_right = (
            self._wall() == BEGIN + self._now()
        )  # else the moment might be hours away by the right clock
        planned = self._wall() + int(ask.option) if ask.option and is_right else None
        return Triggered(planned_at=planned)

    def _newest(self, job_id: str) -> int:
        """The execution that was triggered last, or else the first one."""
        found = [one.number for one in self.asked if one.job_id == job_id and one.number is not None]
        return found[-1] if found else 1
