"""Firings of cron in plain cases, one for each rule (SPEC section 3)."""

from datetime import UTC, datetime

import pytest

from scheduler_service.domain.moments import MINUTE, as_moment
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


def test_the_ends_of_time():
    """Nothing fires before 1970 or after 2199, in local years."""
    cron, utc = parse_cron("0 0 0 1 1 ?"), load_zone("UTC")
    assert cron.next(at("0001-01-01T00:00:00+00:00"), utc) == 0
    assert cron.previous(0, utc) is None
    last = at("2199-01-01T00:00:00+00:00")
    assert cron.next(last - 1, utc) == last
    assert cron.next(last, utc) is None
    assert cron.next(10**16, utc) is None
    assert cron.previous(10**16, utc) == last
    assert cron.next(-(10**14), load_zone("Asia/Shanghai")) == at("1970-01-01T00:00:00+08:00")
    assert parse_cron("* * * * * ?").next(at("2199-12-31T23:59:59+01:00"), load_zone("Europe/Paris")) is None


def test_milliseconds_do_not_hide_a_firing():
    """Strictly after and strictly before, to the millisecond."""
    cron, utc = parse_cron("* * * * * ?"), load_zone("UTC")
    assert cron.next(1_000, utc) == 2_000
    assert cron.next(1_999, utc) == 2_000
    assert cron.previous(2_000, utc) == 1_000
    assert cron.previous(2_001, utc) == 2_000


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


@pytest.mark.parametrize(
    "expression",
    [
        "* * * 31 12 ? 2199",
        "*/7 * * ? 2 7#5",
        "* * * L-30W,31W 1 ? 2199",
        "0 0 0 29 2 ?",
        "* * * ? 2 1#5 2180-2199",
    ],
)
def test_a_rare_expression_is_found_by_arithmetic(expression: str):
    """However far away, the next firing needs no walk: a hundred of them take no time to speak of."""
    cron, zone = parse_cron(expression), load_zone("Europe/Paris")
    for minutes in range(100):
        moment = at("2026-01-01T00:00:00+00:00") + minutes * MINUTE
        assert cron.next(moment, zone) > moment
