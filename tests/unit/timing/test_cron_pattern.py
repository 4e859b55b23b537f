"""The local times of a cron expression, found by arithmetic (SPEC section 3)."""

from datetime import datetime

from scheduler_service.domain.moments import as_moment
from scheduler_service.timing.cron import parse_cron
from scheduler_service.timing.zones import load_zone


def at(text: str) -> int:
    return as_moment(datetime.fromisoformat(text))


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
