"""When the next message to a robot may go: never more than it takes, and none later than need be."""

import itertools

from scheduler_service.hosts.chat_robots import RobotPace
from scheduler_service.telemetry.alerts.alert_receivers import RECEIVERS, Limit
from tests.rows import each_row


def send_all(pace: RobotPace, count: int) -> list[int]:
    """The moments at which so many messages go, that are there from the begin on."""
    now, moments = 0, []
    for _ in range(count):
        now += pace.wait(now)
        assert pace.wait(now) == 0
        pace.note(now)
        moments.append(now)
    return moments


@each_row("limits", [one.limits for one in RECEIVERS.values()])
def test_no_limit_is_passed(limits: tuple[Limit, ...]) -> None:
    """In no stretch of time as long as a limit's are more messages than it allows; fewer nowhere."""
    moments = send_all(RobotPace(limits), 150)
    for most, within in limits:
        stretches = [last - first for first, last in zip(moments, moments[most:], strict=False)]
        assert min(stretches) >= within
    assert any(
        min(b - a for a, b in zip(moments, moments[most:], strict=False)) == within for most, within in limits
    )


def test_two_limits_hold_together() -> None:
    """Five a second until the hundredth, and then a minute after the first."""
    moments = send_all(RobotPace((Limit(5, 1_000), Limit(100, 60_000))), 101)
    assert moments[:6] == [0, 0, 0, 0, 0, 1_000]
    assert moments[99:] == [19_000, 60_000]
    assert all(a <= b for a, b in itertools.pairwise(moments))
