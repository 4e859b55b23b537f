"""What takes long is known before it is begun, or found out soon (decision 28)."""

from collections.abc import Callable

import pytest

from scheduler_service.domain.events import AlarmRang, CallEnded, Event, PartEnded, Triggered
from scheduler_service.domain.parts import PartEnd, PartName
from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest, Token
from scheduler_service.engine.effort import begin_short, is_large
from scheduler_service.engine.machine import decide
from scheduler_service.engine.parameters import check_parameters
from scheduler_service.language.filters import Unfinished
from scheduler_service.language.values import LARGE_BYTES
from tests.rows import each_row
from tests.unit.engine.rig import Rig

TEXT = "x" * LARGE_BYTES
TOKEN = Token("uid", 1, 1, "step", 0)
REQUEST = OutboundRequest("POST", "http://t.test/", ())
CASES: list[tuple[Event, bool]] = [
    (AlarmRang(), False),
    (Triggered(), False),
    (Triggered(params=f'"{TEXT}"'.encode()), True),
    (CallEnded(TOKEN, Answer(200, body=b"{}")), False),
    (CallEnded(TOKEN, Answer(200, body=f'"{TEXT}"'.encode())), True),
    (PartEnded(PartName("uid", 1, 1, 0, 0), PartEnd(body=b"{}"), REQUEST), False),
    (PartEnded(PartName("uid", 1, 1, 0, 0), PartEnd(body=TEXT.encode() + b"x"), REQUEST), True),
    (CallEnded(TOKEN, Fault(FaultKind.CONNECT, "no")), False),
]


@each_row(("event", "expected"), CASES)
def test_an_event_is_as_large_as_its_body(event: Event, expected: bool) -> None:
    """An answer, the parameters of a trigger, or what a part ended with."""
    assert is_large(Rig().create().job, event) is expected


@each_row(
    ("body", "expected"),
    [([TEXT], False), ([TEXT, "${jobId}"], True), (["${jobId}"], False), ("${trigger}|json", False)],
)
def test_a_definition_is_as_large_as_what_it_renders(body: object, expected: bool) -> None:
    """A constant body costs nothing, however large it is."""
    request = [{"url": "http://t.test/", "body": body}]
    assert is_large(Rig(request=request).create().job, AlarmRang()) is expected


def test_an_execution_is_as_large_as_what_it_keeps() -> None:
    """The parameters of its trigger, as long as it lives."""
    rig = Rig().create()
    rig.deliver(Triggered(params=f'{{"a":"{TEXT}"}}'.encode()))
    assert is_large(rig.job, AlarmRang())


def test_a_trigger_for_later_is_as_large_as_its_parameters() -> None:
    """It has no context yet; its moment begins the execution."""
    rig = Rig().create()
    later = rig.now.wall + 60_000
    rig.deliver(Triggered(params=f'{{"a":"{TEXT}"}}'.encode(), planned_at=later))
    assert rig.document is not None
    assert not rig.document.contexts
    assert is_large(rig.job, AlarmRang())


def _dear_path() -> None:
    rig = Rig(request=[{"url": "http://t.test/", "body": "${$..[?@.a]}|json"}]).create()
    many = b'{"a":[' + b",".join([b"[]"] * 4_000) + b"]}"
    decide(rig.job, Triggered(params=many), rig.now, is_short=True)


def _dear_schema() -> None:
    check_parameters({"items": {"minimum": 0}}, [1] * 1_000, begin_short())


@each_row("work", [_dear_path, _dear_schema])
def test_a_short_turn_ends_before_it_takes_long(work: Callable[[], None]) -> None:
    """Without one the same is done to its end."""
    with pytest.raises(Unfinished):
        work()
