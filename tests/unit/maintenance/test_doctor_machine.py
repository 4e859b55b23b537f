"""Versions: what is missing or too old is named."""

import resource
import time

from scheduler_service.maintenance.doctor_machine import (
    examine_versions,
    find_wrong,
    judge,
    judge_difference,
    judge_step,
)
from tests.unit.maintenance.subjects import states, subject


async def test_what_is_installed_will_do() -> None:
    """With the extras that the settings need."""
    findings = await examine_versions(subject(contexts__url="redis://127.0.0.1:1/0"))
    assert set(states(findings).values()) == {"ok"}
    assert any("base, service, redis" in one.detail for one in findings)


def test_packages_that_will_not_do_are_named() -> None:
    """Missing or too old; marks and extras of a requirement are left aside."""
    given = [
        "httpx>=0.28",
        "httpx>=999; python_version > '3'",
        "dapr[fastapi]==1.19.*; extra == 'dapr'",
        "no-such-package-at-all>=1",
    ]
    wrong = list(find_wrong(given))
    assert [text.partition(" ")[0] for text in wrong if not text.startswith("dapr")] == [
        "httpx",
        "no-such-package-at-all",
    ]
    assert "999 or later is needed" in wrong[0]


def test_limits_are_judged_as_the_service_divides_them() -> None:
    """The hard limit counts; a setting that leaves nothing for calls is failed."""
    assert states(judge(subject(), 65_536)) == {"descriptors": "ok"}
    assert states(judge(subject(), resource.RLIM_INFINITY)) == {"descriptors": "ok"}
    assert states(judge(subject(), 256)) == {"descriptors": "warning"}
    assert states(judge(subject(limits__connections=65_430), 65_536)) == {"descriptors": "failed"}


def test_a_step_of_the_wall_clock_is_a_warning() -> None:
    """In either direction, with its size."""
    assert states(judge_step(0.001))["step"] == "ok"
    assert states(judge_step(-2.5))["step"] == "warning"
    assert any("-2.50 s" in one.detail for one in judge_step(-2.5))


def test_clocks_that_differ_are_a_warning() -> None:
    """More than a second, beside what the other one leaves out."""
    now = time.time()
    for theirs, between, state in (
        (now, (now, now), "ok"),
        (now - 30, (now, now), "warning"),
        (now + 30, (now, now), "warning"),
        (now + 30, (now, now + 60), "ok"),  # the answer took a minute
        (now + 59, (now, now + 30), "warning"),
    ):
        assert states([judge_difference("x", theirs, between)]) == {"x": state}, (theirs - now, between)
    assert states([judge_difference("x", float(int(now)), (now, now), resolution=1.0)]) == {"x": "ok"}
