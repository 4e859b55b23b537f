"""Firings of cron in plain cases, one for each rule (SPEC section 3)."""

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


def test_a_gap_fires_once_at_its_end():
    """02:30 does not exist on 29 March 2026 in Paris; all that is skipped becomes one firing."""
    assert fires("0 10,40 2 * * ?", "2026-03-28T12:00:00+00:00", 2, "Europe/Paris") == [
        "2026-03-29T01:00:00",
        "2026-03-30T00:10:00",
    ]


def test_an_overlap_fires_once_or_twice():
    """A fixed time fires at its first occurrence; a pattern with a step fires in both passes."""
    assert fires("0 30 2 * * ?", "2026-10-24T12:00:00+00:00", 2, "Europe/Paris") == [
        "2026-10-25T00:30:00",
        "2026-10-26T01:30:00",
    ]
    assert fires("0 0/30 2 * * ?", "2026-10-24T12:00:00+00:00", 4, "Europe/Paris") == [
        "2026-10-25T00:00:00",
        "2026-10-25T00:30:00",
        "2026-10-25T01:00:00",
        "2026-10-25T01:30:00",
    ]


def test_a_list_does_not_recur():
    """Only `*` and steps fire in both passes, a list of the same minutes does not."""
    listed = fires("0 0,30 2 * * ?", "2026-10-24T12:00:00+00:00", 3, "Europe/Paris")
    assert listed == ["2026-10-25T00:00:00", "2026-10-25T00:30:00", "2026-10-26T01:00:00"]
    assert parse_cron("0 0-30 2 * * ?").recurring is False
    assert parse_cron("0 30 1-3/2 * * ?").recurring is True
