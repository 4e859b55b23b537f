"""A job whose step goes to the instances of a service, and what they answer."""

from typing import Any

from scheduler_service.domain.effects import CallPart
from scheduler_service.domain.records import StepEnded
from scheduler_service.domain.turn_events import FeedbackArrived
from scheduler_service.engine.feedback_url import feedback_token
from tests.unit.engine.rig import Rig

SHARDED = {
    "url": "service://shop/run/${schedulingShardIndex}",
    "route": "shard",
    "body": {"of": "${schedulingShardTotal}|json"},
}


def parted(step: dict[str, Any] | None = None, *names: str, route: str = "shard", **members: Any) -> Rig:
    """A job whose step has just been resolved to these instances."""
    rig = Rig(**{"request": [step or SHARDED], **members}).without_instances().triggered()
    rig.resolve(*names, route=route)
    return rig


def parts_of(rig: Rig) -> list[CallPart]:
    """Every part that was sent so far."""
    return rig.of(CallPart, rig.effects)


def answer(rig: Rig, index: int, status: int = 200, body: Any = None, **given: Any) -> None:
    """The part that was sent as the `index`th is answered."""
    rig.answer(status, body, call=parts_of(rig)[index], **given)


def steps_of(rig: Rig) -> list[StepEnded]:
    return rig.of(StepEnded, rig.records)


def report(rig: Rig, shard: int | None, **body: Any) -> Any:
    """A part's feedback."""
    token = feedback_token(b"key", "uid", 1)
    return rig.deliver(FeedbackArrived(1, token, body, shard)).reply


def asynchronous(*names: str, route: str = "shard", **members: Any) -> Rig:
    """An asynchronous job whose parts have all been answered 202."""
    step = {"url": "service://shop/run", "route": route, "body": "${schedulingFeedbackUrl}"}
    rig = parted(step, *names, route=route, **{"async": True}, **members)
    for index in range(len(names)):
        answer(rig, index, 202)
    return rig


BROADCAST = {"url": "service://shop/run", "route": "broadcast"}


DRAINING = {"X-Instance-State": "draining"}
