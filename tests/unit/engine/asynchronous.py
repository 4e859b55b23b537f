"""Asynchronous jobs that have been sent, and what their targets report."""

from typing import Any

from scheduler_service.domain.turn_events import FeedbackArrived
from scheduler_service.engine.scope import feedback_token
from tests.unit.engine.rig import Rig


def started(**members: Any) -> Rig:
    """An asynchronous job whose first execution is in its first step."""
    return Rig(**{"async": True, **members}).triggered()


def feedback(rig: Rig, body: Any, counts: int = 1, token: str | None = None) -> Any:
    """The target reports."""
    given = feedback_token(b"key", "uid", counts) if token is None else token
    rig.deliver(FeedbackArrived(counts, given, body))
    return rig.reply


CHECK = "http://target.test/state/${schedulingExecuteNumber}"


def polled(**members: Any) -> Rig:
    """One that is polled, its chain through."""
    rig = started(checkUrl=CHECK, **members)
    rig.answer(200)
    return rig
