"""How the parts of a step are sent: resolved, sharded, broadcast, sent again (SPEC section 13)."""

import json

from scheduler_service.domain.effects import AbandonPart, PublishParts, ResolveInstances
from scheduler_service.domain.execution import ExecutionState
from scheduler_service.domain.records import AttemptEnded
from scheduler_service.domain.turn_events import CancelRequested, Triggered
from tests.rows import each_row
from tests.unit.engine.parts.service_rig import (
    BROADCAST,
    DRAINING,
    SHARDED,
    answer,
    parted,
    parts_of,
    steps_of,
)
from tests.unit.engine.rig import Rig

S = ExecutionState


def test_a_shard_for_each_instance() -> None:
    """Each part has its index and the number of parts, a key of its own, and the response is the array."""
    rig = parted(SHARDED, "a", "b", "c")
    sent = parts_of(rig)
    assert [call.request.url for call in sent] == [f"service://shop/run/{index}" for index in range(3)]
    assert [json.loads(call.request.body or b"") for call in sent] == [{"of": 3}] * 3
    keys = [dict(call.request.headers)["Idempotency-Key"] for call in sent]
    assert keys == ["uid-1-0-0of3", "uid-1-0-1of3", "uid-1-0-2of3"]
    for index in (2, 0, 1):
        assert rig.states() == [S.PROCESSING]
        answer(rig, index, 200, {"n": index})
    assert rig.states() == [S.SUCCEEDED]
    assert [step.part for step in steps_of(rig)] == [2, 0, 1, None]
    assert json.loads(steps_of(rig)[-1].exchange.response_body or b"") == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_a_broadcast_is_the_same_for_all() -> None:
    """Every instance gets the same request with a key of its own, whatever other instances there are."""
    step = BROADCAST | {"body": "${schedulingShardIndex} of ${schedulingShardTotal}"}
    rig = parted(step, "a", "b", route="broadcast")
    first = parts_of(rig)
    assert {call.request.body for call in first} == {b'"0 of 1"'}
    keys = {call.instance: dict(call.request.headers)["Idempotency-Key"] for call in first}
    assert len(set(keys.values())) == 2
    other = parted(step, "b", "c", route="broadcast")
    assert dict(parts_of(other)[0].request.headers)["Idempotency-Key"] == keys["b"]
    # One instance alone is a spread of one part: the response is still an array
    rig = parted(SHARDED, "a")
    answer(rig, 0, 200, 7)
    assert steps_of(rig)[-1].exchange.response_body == b"[7]"


def test_a_retry_sends_the_whole_step_again_under_the_same_keys() -> None:
    """A new attempt resolves anew; the same part of the same whole has the same key."""
    rig = parted(SHARDED, "a", "b", retry=[{"errorEquals": "partial"}])
    answer(rig, 0, 200)
    answer(rig, 1, 500)
    rig.pass_time(1_000)
    rig.resolve("a", "b", route="shard")
    keys = [dict(call.request.headers)["Idempotency-Key"] for call in parts_of(rig)]
    assert keys[:2] == keys[2:]
    answer(rig, 2)
    answer(rig, 3)
    assert rig.states() == [S.SUCCEEDED]


def test_cancelling_gives_up_all_parts() -> None:
    """What is in flight, and what looks for an instance, is stopped."""
    rig = parted(SHARDED, "a", "b", "c")
    answer(rig, 0)
    answer(rig, 1, 503, headers=DRAINING)
    rig.deliver(CancelRequested(1))
    assert rig.states() == [S.CANCELLED]
    kinds = sorted(one.token.kind.value for one in rig.of(AbandonPart, rig.effects))
    assert kinds == ["part", "resolve"]


def test_a_crash_sends_only_the_open_parts_again() -> None:
    """At qos 1 the ends of parts are durable; what is open goes out again byte for byte."""
    rig = parted(SHARDED, "a", "b", "c", qos=1)
    before = parts_of(rig)
    answer(rig, 1, 200, {"n": 1})
    rig.restart()
    assert parts_of(rig) == [before[0], before[2]]
    answer(rig, 0, 200, 0)
    answer(rig, 1, 200, 2)
    assert rig.states() == [S.SUCCEEDED]
    assert steps_of(rig)[-1].exchange.response_body == b'[0,{"n":1},2]'
    # For what is left of the attempt by then
    rig = parted(SHARDED, "a", "b", qos=1, timeoutSeconds=600, **{"async": True})
    assert [part.request.awaited for part in parts_of(rig)] == [600_000, 600_000]
    rig.stand_still(10_000)
    rig.restart()
    assert [part.request.awaited for part in parts_of(rig)] == [590_000, 590_000]
    # A step, or a part, that looked for an instance looks again
    rig = Rig(request=[SHARDED], qos=1).without_instances().triggered()
    first = rig.of(ResolveInstances, rig.effects)
    rig.restart()
    assert rig.of(ResolveInstances, rig.effects) == first
    rig.resolve("a", "b", route="shard")
    answer(rig, 0, 503, headers=DRAINING)
    second = rig.of(ResolveInstances, rig.effects)[-1]
    open_part = parts_of(rig)[1]
    rig.restart()
    assert rig.of(ResolveInstances, rig.effects) == [second]
    assert parts_of(rig) == [open_part]


@each_row(
    ("count", "full", "cause"),
    [(16, False, None), (17, False, "16,777,216"), (2, True, "limits.open_bytes"), (1, True, None)],
)
@each_row("kind", ["shard", "broadcast", "queue"])
def test_bodies_of_parts_are_limited_together(kind: str, count: int, full: bool, cause: str | None) -> None:
    """Each part has its own: 16 MiB in all, where the process has room. One alone is a step as any other."""
    body = "x" * ((1 << 20) - 40) + "${executeNumber}"
    step = {"url": "service://shop/run", "body": body, "route": kind}
    if kind == "queue":
        step = {"url": "queue://work", "body": body, "parallelism": count}
    rig = Rig(request=[step])
    rig.instances = None
    rig.create()
    rig.is_full = full
    rig.deliver(Triggered())
    if kind != "queue":
        rig.resolve(*(f"i{number}" for number in range(count)), route=kind)
    sent = [part for one in rig.of(PublishParts, rig.effects) for part in one.parts] + parts_of(rig)
    assert len(sent) == (0 if cause else count)
    ended = rig.of(AttemptEnded, rig.records)
    assert [(one.error, cause in one.message) for one in ended] == ([("template", True)] if cause else [])
