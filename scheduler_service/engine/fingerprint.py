"""Fingerprints of definitions, in two parts: the shape that many jobs share, and what differs."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from client_sdk.models import JobDefinition
from client_sdk.models import Timer as TimerModel
from scheduler_service.engine.parts.options import lead_of

OWN = ("jobName", "jobDescription", "objectId", "labels")
"""The texts in which jobs of one shape may differ, by their JSON names."""

_encode = msgspec.json.Encoder(order="sorted").encode


def fingerprint(definition: JobDefinition) -> bytes:
    """Equal for equal definitions: defaults filled in, `active` and `jobId` left out (SPEC section 10)."""
    shape, own, bodies = _split(definition)
    return join(shape, digest_timer(definition.timer), own, bodies)


def shape_of(definition: JobDefinition) -> bytes:
    """Equal for definitions that differ at most in jobId, timer, OWN and the bodies of their steps."""
    return _split(definition)[0]


def digest_timer(timer: TimerModel | None) -> bytes:
    """Equal for equal timers."""
    dumped = None if timer is None else timer.model_dump(mode="json", by_alias=True)
    return hashlib.sha256(_encode(dumped)).digest()


def join(shape: bytes, timer: bytes, own: Mapping[str, object], bodies: Sequence[Sequence[object]]) -> bytes:
    """The fingerprint of the parts; `bodies` has for each step a sequence with its body, or an empty one."""
    return hashlib.sha256(shape + timer + _encode((own, bodies))).digest()


def _split(definition: JobDefinition) -> tuple[bytes, dict[str, object], list[list[object]]]:
    filled = definition.model_dump(mode="json", by_alias=True, exclude={"active", "job_id", "timer"})
    own = {name: filled.pop(name) for name in OWN}
    bodies = _take_bodies(definition, filled)
    filled["leadSeconds"] = lead_of(definition)
    return hashlib.sha256(_encode(filled)).digest(), own, bodies


def _take_bodies(definition: JobDefinition, filled: dict[str, Any]) -> list[list[object]]:
    """Tells `body: null` from no body, which the dump shows alike."""
    for entry, dumped in zip(definition.notification, filled["notification"], strict=True):
        if not entry.has_body:
            del dumped["body"]
    bodies: list[list[object]] = []
    for step, dumped in zip(definition.request, filled["request"], strict=True):
        body = dumped.pop("body")
        bodies.append([body] if step.has_body else [])
    return bodies
