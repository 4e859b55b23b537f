"""Messages of alerts: at most so many a minute of each alert, the rest in one of them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

import msgspec

from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.moments import MINUTE, SECOND, rfc3339
from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.domain.texts import cut
from scheduler_service.ports.alerts import AlertLine, AlertState, AlertTable, Waiting
from scheduler_service.ports.clock import Clock
from scheduler_service.telemetry.alerts.alert_rules import SERVICE, AlertRule

MOST_A_MINUTE = 10
"""Messages of one alert: who gets more of them reads none."""

Send = Callable[[str, str, bytes], Awaitable[bool]]
"""Sends a message of the alert, once under its key; False: not now. Raises StoreError."""

Finish = Callable[[str, "Body"], "Body"]
"""What is sent of a message of the alert: with what its receiver needs beside it."""

_encode = msgspec.json.Encoder().encode


def _as_it_is(alert: str, body: "Body") -> "Body":
    return body


class AlertMessages:
    """Hands what waits to `send`. After a crash a message may be handed over again, by its key."""

    def __init__(self, *, table: AlertTable, clock: Clock, send: Send, finish: Finish = _as_it_is) -> None:
        self._table = table
        self._clock = clock
        self._send = send
        self._finish = finish
        self._budgets: dict[str, MessageBudget] = {}
        self._said_at: dict[str, int] = {}

    def in_turn(self, rules: Sequence[AlertRule]) -> Sequence[AlertRule]:
        """Those that have said something least recently first: several may share the messages of a minute."""
        return sorted(rules, key=lambda rule: self._said_at.get(rule.name, 0))

    async def say(self, rule: AlertRule) -> None:
        """Says what of one alert may be said now. Raises StoreError: what is not said yet stays."""
        now = self._clock.now()
        until = now.wall - rule.interval
        budget = self._budgets.setdefault(rule.channel or rule.name, MessageBudget(most=MOST_A_MINUTE))
        left = budget.left(now.steady)
        if not left:
            return
        waiting = await self._table.waiting(rule.name, until, MOST_A_MINUTE)
        # The last message that is left is for all that remain.
        alone = waiting.lines if waiting.total <= left else waiting.lines[: left - 1]
        for line in alone:
            if not await self._send(rule.name, _key(line), self._write(rule.name, body_of(line))):
                return
            self._spend(budget, rule, now.steady)
            await self._table.said((line,), now.wall)
        if waiting.total > len(alone) and await self._say_rest(rule, until, now.wall):
            self._spend(budget, rule, now.steady)

    async def _say_rest(self, rule: AlertRule, until: int, now: int) -> bool:
        """Says in one message what waits; False: nothing does, or not now."""
        rest = await self._table.waiting(rule.name, until, NAMED)
        if not rest.total:
            return False
        body = self._write(rule.name, body_of_many(rule.name, rest, now))
        if not await self._send(rule.name, _key_of_many(rest), body):
            return False
        await self._table.said_all(rule.name, until, now, rest)
        return True

    def _spend(self, budget: "MessageBudget", rule: AlertRule, now: int) -> None:
        budget.spend(now)
        self._said_at[rule.name] = now

    def _write(self, alert: str, body: "Body") -> bytes:
        return _encode(self._finish(alert, body))


class MessageBudget:
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


SAID_CHARACTERS = 500
"""So much of what somebody wrote, as the reason of a cancellation, an alert says."""
NAMED = 10
"""So many subjects a message about many of them names."""

Body = dict[str, object]

_COUNTED: Mapping[OccurrenceKind, tuple[str, str]] = {
    OccurrenceKind.FINAL_FAILED: ("execution failed", "executions failed"),
    OccurrenceKind.UNDELIVERABLE: (
        "notification could not be delivered",
        "notifications could not be delivered",
    ),
}
"""What is counted by happenings; of all else the subjects are."""


class _Lasting(NamedTuple):
    """The words of what lasts, each of one and of several: what it is, how it is, and how once it is over."""

    what: tuple[str, str]
    state: tuple[str, str]
    over: tuple[str, str]
    was: str


_LOST = ("was lost", "were lost"), ("is back", "are back"), "lost"
_LASTING: Mapping[OccurrenceKind, _Lasting] = {
    OccurrenceKind.FAILING: _Lasting(
        ("job", "jobs"), ("is failing", "are failing"), ("succeeds again", "succeed again"), "failing"
    ),
    OccurrenceKind.OVERDUE: _Lasting(
        ("job", "jobs"), ("is overdue", "are overdue"), ("is on time again", "are on time again"), "overdue"
    ),
    OccurrenceKind.JOB_PAUSED: _Lasting(
        ("job", "jobs"), ("was paused", "were paused"), ("is active again", "are active again"), "paused"
    ),
    OccurrenceKind.INSTANCE_LOST: _Lasting(("instance", "instances"), *_LOST),
    OccurrenceKind.WORKER_LOST: _Lasting(("worker process", "worker processes"), *_LOST),
    OccurrenceKind.NODE_LOST: _Lasting(("node", "nodes"), *_LOST),
    OccurrenceKind.STORE_LOST: _Lasting(("store", "stores"), *_LOST),
    OccurrenceKind.LIMIT_REACHED: _Lasting(
        ("limit of a tenant", "limits of tenants"), ("was reached", "were reached"), ("", ""), ""
    ),
}


def body_of(line: AlertLine) -> Body:
    """The message about one line: its newest happening, and how many there were since the last message."""
    is_over = line.state is AlertState.RECOVERED
    one = line.occurrence
    return {
        "alert": line.alert,
        "kind": OccurrenceKind.RECOVERED.value if is_over else line.kind.value,
        "of": line.kind.value,
        "at": rfc3339(line.at),
        "since": rfc3339(line.since),
        "count": max(line.count, 1),
        "subject": line.subject,
        "jobId": one.job_id,
        "executionId": one.execution_id,
        "error": one.error,
        "failureType": None if one.failure_type is None else one.failure_type.value,
        "message": cut(_said(one), SAID_CHARACTERS),
        "plannedAt": None if one.planned_at is None else rfc3339(one.planned_at),
        "latenessMs": one.lateness_ms,
        "more": 0,
        "subjects": [line.subject],
        "text": _sentence(line),
    }


def body_of_many(alert: str, waiting: Waiting, at: int) -> Body:
    """One message about all that waits, at least one line."""
    subjects = list(dict.fromkeys(line.subject for line in waiting.lines))[:NAMED]
    more = waiting.subjects - len(subjects)
    sums: dict[tuple[OccurrenceKind, bool], tuple[int, int]] = {}
    for one in waiting.tallied:
        group = one.kind, one.state is AlertState.RECOVERED
        of_lines, of_happenings = sums.get(group, (0, 0))
        sums[group] = of_lines + one.lines, of_happenings + one.happenings
    of = {OccurrenceKind.RECOVERED if is_over else kind for kind, is_over in sums}
    said = ", ".join(_sum(*group, *numbers) for group, numbers in sums.items())
    named = ", ".join(subjects)
    rest = f" and {more:,} more" if more else ""
    return {
        **body_of(waiting.lines[0]),
        "alert": alert,
        "kind": "many",
        "of": of.pop().value if len(of) == 1 else None,
        "at": rfc3339(at),
        "count": waiting.happenings,
        "subject": None,
        "jobId": None,
        "executionId": None,
        "more": more,
        "subjects": subjects,
        "text": f"[{alert}] {said}: {named}{rest}.",
    }


def _sum(kind: OccurrenceKind, is_over: bool, lines: int, happenings: int) -> str:
    counted = _COUNTED.get(kind)
    if counted is None:
        words, many = _LASTING[kind], lines > 1
        return f"{lines:,} {words.what[many]} {(words.over if is_over else words.state)[many]}"
    of_jobs = f" ({lines:,} jobs)" if 1 < lines < happenings else ""
    return f"{happenings:,} {counted[happenings > 1]}{of_jobs}"


def _sentence(line: AlertLine) -> str:
    if line.state is AlertState.RECOVERED:
        return f"[{line.alert}] {_recovered(line)} since {rfc3339(line.since)} until {rfc3339(line.at)}."
    return f"[{line.alert}] {_happening(line)}{_repeated(line)}."


def _recovered(line: AlertLine) -> str:
    words = _LASTING.get(line.kind)
    if words is None:
        return f"{line.subject} has recovered: {line.kind.value}"
    is_store = line.kind is OccurrenceKind.STORE_LOST
    what = _store(line) if is_store else f"The {words.what[0]} {line.subject}"
    return f"{what} {words.over[0]}: it was {words.was}"


def _happening(line: AlertLine) -> str:
    one = line.occurrence
    match line.kind:
        case OccurrenceKind.FINAL_FAILED:
            return f"The job {line.subject} failed in its execution {one.execute_number}{_why(one)}"
        case OccurrenceKind.FAILING:
            return f"The job {line.subject} failed {one.count} times in a row{_why(one)}"
        case OccurrenceKind.OVERDUE:
            return f"The job {line.subject} {_how_late(one)}"
        case OccurrenceKind.JOB_PAUSED:
            after = "its target does not know it" if one.count is None else f"{one.count} failures in a row"
            return f"The job {line.subject} was paused: {after}{_why(one)}; resume it when that is mended"
        case OccurrenceKind.UNDELIVERABLE:
            what = cut(one.message, SAID_CHARACTERS) or "A notification"
            why = f" ({one.error})" if one.error else ""
            return f"{what} of the job {line.subject} could not be delivered{why}"
        case OccurrenceKind.STORE_LOST:
            return f"{_store(line)} cannot be reached or written{_why(one)}"
        case OccurrenceKind.WORKER_LOST:
            return f"The worker process {line.subject} was lost{_why(one)}"
        case OccurrenceKind.LIMIT_REACHED:
            tenant = line.subject.partition("/")[0]
            return f"The tenant {tenant} has reached a limit: {one.message}"
        case OccurrenceKind.NODE_LOST:
            return f"The node {line.subject} is lost: no heartbeat"
        case _:
            return f"The instance {line.subject} is lost{_why(one)}"


def _store(line: AlertLine) -> str:
    whose, _, part = line.subject.rpartition("/")
    if part == "history":
        return f"The history of the {whose}" if whose else "The history"
    return "The store of the jobs" if part == SERVICE else f"The store of the {part}"


def _how_late(one: Occurrence) -> str:
    planned = rfc3339(one.planned_at or one.at)
    if one.lateness_ms is not None:
        return f"began {one.lateness_ms / SECOND:.0f} s late; it was planned for {planned}"
    return f"is overdue: it was planned for {planned} and has not begun"


def _why(one: Occurrence) -> str:
    parts = [part for part in (one.error, cut(_said(one) or _kind_of_failure(one), SAID_CHARACTERS)) if part]
    return f" ({': '.join(parts)})" if parts else ""


def _said(one: Occurrence) -> str | None:
    """What somebody wrote; the reason of a failure is a word of the service's own."""
    return one.message or (one.reason if one.error == FailureType.CANCELLED else None)


def _kind_of_failure(one: Occurrence) -> str | None:
    """Where the code alone does not say it: 500 is also what a timeout is called."""
    kind = one.failure_type
    return None if kind is None or kind is FailureType.HTTP or kind.value == one.error else kind.value


def _repeated(line: AlertLine) -> str:
    return f"; {line.count:,} times since {rfc3339(line.since)}" if line.count > 1 else ""
