"""A job whose step goes to a queue."""

from typing import Any

import msgspec

from scheduler_service.domain.effects import PublishParts
from scheduler_service.domain.step_parts import LeaseChange, PartEnd, PartName, QueuedPart
from scheduler_service.domain.turn_events import LeasesChanged, PartEnded
from scheduler_service.domain.wire import OutboundRequest
from tests.unit.engine.rig import Rig

STEP = {"url": "queue://work", "body": {"n": 1}}

NOBODYS = OutboundRequest("POST", "queue://work", ())


def queued(step: dict[str, Any] | None = None, **members: Any) -> Rig:
    """A job whose step has just been published."""
    return Rig(**{"request": [step or STEP], **members}).triggered()


def parts_of(rig: Rig) -> list[QueuedPart]:
    """All parts that were published."""
    return [part for effect in rig.of(PublishParts, rig.effects) for part in effect.parts]


def claimed(rig: Rig, index: int = 0, *, serial: int = 1, by: str = "w", lost: bool = False) -> Any:
    """A part of the newest attempt was claimed at this moment, or its lease was lost."""
    change = LeaseChange(serial, by, rig.steady, lost)
    name = msgspec.structs.replace(parts_of(rig)[-1].name, index=index)
    return rig.deliver(LeasesChanged(name, (change,))).reply


def end(rig: Rig, index: int = 0, said: PartEnd | None = None, **members: Any) -> Any:
    """A part of the newest attempt ended."""
    name = parts_of(rig)[-1].name
    counts, step = members.get("counts", name.request_counts), members.get("step", 0)
    named = PartName(name.uid, name.execute_number, counts, step, index)
    given = {part.name: part.request for part in parts_of(rig)}.get(named, NOBODYS)
    return rig.deliver(PartEnded(named, said or PartEnd(body=b'{"x":1}', instance="w"), given)).reply
