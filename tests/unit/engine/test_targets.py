"""What is sent, compiled: steps, keys and which responses are kept (SPEC sections 2, 4)."""

from typing import Any

from tests.rows import each_row
from tests.unit.engine.rig import Rig, program

URL = "http://target.test/"


def test_behind_a_service_name_an_authority_is_a_segment() -> None:
    """With `serviceName` the authority in `url` is the first path segment (SPEC section 4)."""
    assert program(request=[{"url": "http://first:99999/x", "serviceName": "shop"}]).steps
    # `system://NAME` is refused in every definition but the scheduler's own
    assert program(system=True, request=[{"url": "system://clean"}]).system


def kept(**members: Any) -> list[tuple[bool, bool]]:
    """(keeps, needed) of each step."""
    return [(step.keeps, step.needed) for step in program(**members).steps]


@each_row(
    ("members", "expected"),
    [
        ({"request": [{"url": URL}, {"url": URL}]}, [(False, False)] * 2),
        ({"request": [{"url": URL}, {"url": URL, "body": "${x}"}]}, [(True, True), (False, False)]),
        (
            {"request": [{"url": URL, "body": "${x}"}] * 3},
            [(True, True), (True, True), (False, False)],
        ),
        (
            {"request": [{"url": URL, "respEnvName": "A"}, {"url": URL}, {"url": URL, "body": "${A.x}"}]},
            [(True, True), (False, False), (False, False)],
        ),
        (
            {"request": [{"url": URL}, {"url": URL}, {"url": URL, "body": "${responses[0].x}"}]},
            [(True, True), (True, True), (False, False)],
        ),
        (
            {"request": [{"url": URL}, {"url": URL, "body": "${$.*}"}]},
            [(True, True), (False, False)],
        ),
        ({"request": [{"url": URL}, {"url": URL, "body": "${trigger.x}"}]}, [(False, False)] * 2),
        ({"notification": [{"url": URL, "body": "${x}"}]}, [(True, False)]),
        ({"cancelUrl": {"url": URL + "${x}"}}, [(True, False)]),
        ({"checkUrl": URL + "${x}", "async": True}, [(True, True)]),
        ({"checkUrl": URL + "${x}"}, [(False, False)]),
    ],
)
def test_which_responses_are_kept(members: dict[str, Any], expected: list[tuple[bool, bool]]) -> None:
    """Only what a later template may read is kept; only what a step or the check reads is needed."""
    assert kept(**members) == expected


def test_steps_with_equal_targets_are_told_apart() -> None:
    """The latest response is that of the step just before, though a later step looks the same."""
    middle, last = {"url": URL, "respEnvName": "B"}, {"url": URL, "body": "${x}"}
    marks = [(False, False), (True, True), (True, True), (False, False)]
    assert kept(request=[{"url": URL}, middle, last, last]) == marks


@each_row(
    ("step", "key"),
    [
        ({"url": URL}, "uid-1-0"),
        ({"url": URL + "${schedulingRequestCounts}"}, "uid-1-0-1"),
        ({"url": URL, "body": "${schedulingFeedbackUrl}"}, "uid-1-0-1"),
        ({"url": URL, "headers": {"X-F": "${schedulingFeedbackUrlInternal}"}}, "uid-1-0-1"),
        ({"url": "service:/x", "serviceName": "s${schedulingRequestCounts}"}, "uid-1-0-1"),
        ({"url": URL + "${schedulingExecuteNumber}"}, "uid-1-0"),
        ({"url": URL, "headers": {"idempotency-KEY": "own"}}, "own"),
    ],
)
def test_idempotency_key(step: dict[str, Any], key: str) -> None:
    """uid, executeNumber and step; the attempt where the templates name it; a step's own wins, once."""
    rig = Rig(request=[step]).triggered()
    names = [name.lower() for name, _ in rig.request.headers]
    assert names.count("idempotency-key") == 1
    assert rig.header("Idempotency-Key") == key
