"""Parameters of a trigger against `paramsSchema` (SPEC section 2)."""

from typing import Any

import pytest

from scheduler_service.domain.events import Triggered
from scheduler_service.domain.execution import ExecutionState
from scheduler_service.domain.replies import Refusal, RefusalCode
from scheduler_service.engine.parameters import MOST, check_parameters, check_schema
from tests.unit.engine.rig import Rig

SCHEMA = {
    "type": "object",
    "required": ["size"],
    "properties": {"size": {"type": "integer"}, "code": {"pattern": "^[a-z]+$"}},
    "patternProperties": {"^x-": {"type": "string"}},
}


@pytest.mark.parametrize(
    ("params", "pointer"),
    [
        (b"{}", ""),
        (b'{"size":"big"}', "/size"),
        (b'{"size":1,"code":"A"}', "/code"),
        (b'{"size":1,"x-a":2}', "/x-a"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(params: bytes, pointer: str) -> None:
    """A trigger whose parameters break the schema is refused with the place, and uses up no number."""
    rig = Rig(paramsSchema=SCHEMA).create()
    refusal = rig.deliver(Triggered(params=params)).reply
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.pointer) == (RefusalCode.INVALID, pointer)
    assert rig.summary.execute_number == 0


def test_parameters_that_fit_run() -> None:
    """Parameters that fit start an execution."""
    rig = Rig(paramsSchema=SCHEMA).create()
    rig.deliver(Triggered(params=b'{"size":1,"code":"ok","x-a":"s","other":[]}'))
    assert rig.states() == [ExecutionState.PROCESSING]


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"type": "no type"}, "/paramsSchema/type"),
        ({"properties": {"a": {"pattern": "(?=x)"}}}, "/paramsSchema/properties/a/pattern"),
        ({"patternProperties": {"(": {}}}, "/paramsSchema/patternProperties/("),
        ({"allOf": [{"$ref": "http://elsewhere.test/s"}]}, "/paramsSchema/allOf/0/$ref"),
    ],
)
def test_schema_that_cannot_be_honoured(schema: Any, pointer: str) -> None:
    """No schema, a pattern that RE2 cannot run, a reference that leads out: refused at creation."""
    assert [one.pointer for one in check_schema(schema)] == [pointer]


@pytest.mark.parametrize("schema", [True, False, {}, {"$defs": {"a": {}}, "$ref": "#/$defs/a"}])
def test_schema_that_holds(schema: Any) -> None:
    """true, false, an empty one, and references within are schemas."""
    assert check_schema(schema) == []


def test_problems_are_bounded() -> None:
    """At most 20 problems are told, and a pattern judges texts and objects alone."""
    assert len(check_parameters({"items": {"type": "string"}}, [1] * 100)) == MOST
    assert check_parameters({"pattern": "^a$", "patternProperties": {"a": False}}, 7) == []
