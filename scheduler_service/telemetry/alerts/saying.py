"""Says what was noted: at most so many messages a minute of each alert, the rest in one of them."""

from collections.abc import Awaitable, Callable
from hashlib import sha256

import msgspec

from scheduler_service.domain.moments import MINUTE
from scheduler_service.ports.alerts import AlertLine, AlertTable, Waiting
from scheduler_service.ports.clock import Clock
from scheduler_service.telemetry.alerts.rules import AlertRule
from scheduler_service.telemetry.alerts.wording import NAMED, body_of, body_of_many

MOST_A_MINUTE = 10
"""Messages of one alert: who gets more of them reads none."""

Send = Callable[[str, str, bytes], Awaitable[bool]]
"""Sends a message of the alert, once under its key; False: not now. Raises StoreError."""

_encode = msgspec.json.Encoder().encode


class Saying:
    """Hands what waits to `send`. After a crash a message may be handed over again, by its key."""

    def __init__(self, *, table: AlertTable, clock: Clock, send: Send) -> None:
        self._table = table
        self._clock = clock
        self._send = send
        self._budgets: dict[str, Budget] = {}

    async def say(self, rule: AlertRule) -> None:
        """Says what of one alert may be said now. Raises StoreError: what is not said yet stays."""
        now = self._clock.now()
        until = now.wall - rule.interval
        budget = self._budgets.setdefault(rule.name, Budget(most=MOST_A_MINUTE))
        left = budget.left(now.steady)
        if not left:
            return
        waiting = await self._table.waiting(rule.name, until, MOST_A_MINUTE)
        # The last message that is left is for all that remain.
        alone = waiting.lines if waiting.total <= left else waiting.lines[: left - 1]
        for line in alone:
            if not await self._send(rule.name, _key(line), _encode(body_of(line))):
                return
            budget.spend(now.steady)
            await self._table.said((line,), now.wall)
        if waiting.total > len(alone) and await self._say_rest(rule, until, now.wall):
            budget.spend(now.steady)

    async def _say_rest(self, rule: AlertRule, until: int, now: int) -> bool:
        """Says in one message what waits; False: nothing does, or not now."""
        rest = await self._table.waiting(rule.name, until, NAMED)
        if not rest.total:
            return False
        body = _encode(body_of_many(rule.name, rest, now))
        if not await self._send(rule.name, _key_of_many(rest), body):
            return False
        await self._table.said_all(rule.name, until, now, rest)
        return True


class Budget:
    """Messages that may still be sent: `most` at once, and as many in each minute; times are steady ms."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._spent = 0.0
        self._at = 0

    def left(self, now: int) -> int:
        """How many."""
        self._give_back(now)
        return int(self._most - self._spent)

    def spend(self, now: int) -> None:
        """One is sent."""
        self._give_back(now)
        self._spent += 1

    def _give_back(self, now: int) -> None:
        self._spent = max(self._spent - (now - self._at) * self._most / MINUTE, 0.0)
        self._at = now


def _key(line: AlertLine) -> str:
    return _digest([*line.key, line.state.value, line.since, line.at, line.total])


def _key_of_many(waiting: Waiting) -> str:
    return _digest([_key(waiting.lines[0]), waiting.total, waiting.happenings])


def _digest(parts: list[object]) -> str:
    return sha256(_encode(parts)).hexdigest()
