"""On which days a cron expression fires (SPEC section 3)."""

from datetime import UTC, datetime

from scheduler_service.domain.moments import as_moment
from scheduler_service.timing.cron import parse_cron
from scheduler_service.timing.zones import load_zone


def at(text: str) -> int:
    return as_moment(datetime.fromisoformat(text))


def fires(expression: str, start: str, count: int, zone: str = "UTC") -> list[str]:
    cron, rules = parse_cron(expression), load_zone(zone)
    found, moment = [], at(start)
    while len(found) < count and (moment := cron.next(moment, rules)) is not None:
        found.append(datetime.fromtimestamp(moment / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S"))
    return found


def test_unix_days_are_joined_by_or():
    """In Unix cron a day fires when either restricted day field has it."""
    assert fires("0 0 13 * 5", "2026-02-01T00:00:00+00:00", 4) == [
        f"2026-02-{day}T00:00:00" for day in ("06", "13", "20", "27")
    ]
    assert fires("0 0 14 * 5", "2026-02-12T00:00:00+00:00", 2) == [
        "2026-02-13T00:00:00",
        "2026-02-14T00:00:00",
    ]
    assert fires("0 0 * * 0", "2026-02-01T00:00:00+00:00", 1) == fires(
        "0 0 * * 7", "2026-02-01T00:00:00+00:00", 1
    )
