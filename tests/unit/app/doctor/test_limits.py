"""Descriptors: what is enough, little, and too little."""

import resource

from scheduler_service.app.doctor.limits import judge
from tests.unit.app.doctor.subjects import states, subject


def test_limits_are_judged_as_the_service_divides_them() -> None:
    """The hard limit counts; a setting that leaves nothing for calls is failed."""
    assert states(judge(subject(), 65_536)) == {"descriptors": "ok"}
    assert states(judge(subject(), resource.RLIM_INFINITY)) == {"descriptors": "ok"}
    assert states(judge(subject(), 256)) == {"descriptors": "warning"}
    assert states(judge(subject(limits__connections=65_430), 65_536)) == {"descriptors": "failed"}
