"""The options of steps that go to queues: which fit, and what they default to (SPEC section 13)."""

from typing import Any

import pytest

from scheduler_service.domain.errors import DefinitionError
from tests.rows import each_row
from tests.unit.engine.parts.queue_rig import STEP
from tests.unit.engine.rig import program


@each_row(
    ("step", "pointer", "code"),
    [
        ({"url": "queue://"}, "/request/0/url", "invalid"),
        ({"url": "queue://a b"}, "/request/0/url", "invalid"),
        ({"url": "queue://work", "serviceName": "s"}, "/request/0/serviceName", "misplaced"),
        ({"url": "queue://work", "route": "hash"}, "/request/0/route", "misplaced"),
        ({"url": "queue://work", "timeoutSeconds": 1}, "/request/0/timeoutSeconds", "misplaced"),
        ({"url": "queue://work", "successCodes": [204]}, "/request/0/successCodes", "misplaced"),
        ({"url": "queue://work", "followRedirects": 3}, "/request/0/followRedirects", "misplaced"),
        ({"url": "queue://work", "parallelism": 1_001}, "/request/0/parallelism", "range"),
        (
            {"url": "queue://work", "parallelism": 3, "specificInstances": ["a", "b"]},
            "/request/0/parallelism",
            "range",
        ),
        (
            {"url": "queue://work", "specificInstances": ["a", "b", "a"]},
            "/request/0/specificInstances/2",
            "duplicate",
        ),
        (
            {"url": "queue://work", "leaseSeconds": 5, "renewSeconds": 5},
            "/request/0/renewSeconds",
            "range",
        ),
        ({"url": "http://target.test/", "route": "hash"}, "/request/0/route", "misplaced"),
        ({"url": "http://target.test/", "tags": ["a"]}, "/request/0/tags", "misplaced"),
        ({"url": "service://s/", "priority": 1}, "/request/0/priority", "misplaced"),
    ],
)
def test_fields_that_do_not_fit_are_refused(step: dict[str, Any], pointer: str, code: str) -> None:
    """Each by its pointer, so that none is silently ignored."""
    with pytest.raises(DefinitionError) as refused:
        program(request=[step])
    assert (pointer, code) in [(one.pointer, one.code) for one in refused.value.problems]


@each_row(("parallelism", "named"), [(2, ["a", "b"]), (2, ["a", "b", "c"]), (2, []), (1, ["a"])])
def test_as_many_parts_as_instances_are_taken(parallelism: int, named: list[str]) -> None:
    """Each part goes to another instance; without names to any instance (SPEC section 13)."""
    assert program(request=[STEP | {"parallelism": parallelism, "specificInstances": named}]).steps


def test_what_says_nothing_else_than_the_default_is_taken() -> None:
    """A step that is written out in full is none the worse for it."""
    assert program(
        request=[STEP | {"followRedirects": 0, "successCodes": ["2xx"], "timeoutSeconds": None}]
    ).steps


@each_row("place", ["cancelUrl", "checkUrl", "notification"])
def test_only_steps_go_to_queues(place: str) -> None:
    """Checks, notifications and cancelUrl are sent."""
    entry = {"url": "queue://work"}
    with pytest.raises(DefinitionError) as refused:
        program(**{place: [entry] if place == "notification" else entry, "async": True})
    assert any(one.code == "misplaced" for one in refused.value.problems)
