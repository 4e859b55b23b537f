"""Cron beside two other evaluators, croniter and cronsim: in any zone, around every change of its clocks.

Their common subset: numbers, ranges that rise, steps and lists; both day fields only without `*`, since the
two read `*/2` beside another day field differently. Where clocks change each evaluator has a policy of its
own; what SPEC section 3 says is coded below as a rule on local times, which come from cronsim.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from random import Random
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from cronsim import CronSim

from scheduler_service.domain.moments import EPOCH, HOUR, MINUTE, as_datetime, as_moment
from scheduler_service.timing.cron import Cron, parse_cron
from scheduler_service.timing.zones import Zone, load_zone
from tests.rows import each_row

ZONES = (
    "Africa/Cairo", "Africa/Casablanca", "America/Asuncion", "America/Havana", "America/New_York",
    "America/Nuuk", "America/Sao_Paulo", "America/St_Johns", "Antarctica/Troll", "Asia/Beirut",
    "Asia/Jerusalem", "Asia/Kolkata", "Asia/Shanghai", "Asia/Tehran", "Australia/Adelaide",
    "Australia/Lord_Howe", "Europe/Berlin", "Europe/London", "Pacific/Auckland", "Pacific/Chatham",
)  # fmt: skip
START, END = (as_moment(datetime(year, 1, 1, tzinfo=UTC)) for year in (2020, 2036))
NEAR = 3 * HOUR
"""More than any clock of these years is moved by."""


def info_of(name: str) -> ZoneInfo:
    """The zone as others see it, from the same data as ours."""
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


def item(random: Random, low: int, high: int) -> str:
    first, last = sorted(random.sample(range(low, high + 1), 2))
    step = random.randint(1, high - low)
    return random.choice((f"{first}", f"{first}", f"{first}-{last}", f"{first}-{last}/{step}"))


def given(random: Random, low: int, high: int) -> str:
    return ",".join(item(random, low, high) for _ in range(random.choice((1, 1, 1, 2, 3))))


def field(random: Random, low: int, high: int) -> str:
    every = f"*/{random.randint(1, high - low)}"
    return random.choice(("*", every, given(random, low, high), given(random, low, high)))


def expression(random: Random) -> str:
    dates, week = random.choice(
        (
            ("*", "*"),
            (field(random, 1, 31), "*"),
            ("*", field(random, 0, 6)),
            (given(random, 1, 31), given(random, 0, 6)),
        )
    )
    minute, hour, month = (
        field(random, 0, 59),
        field(random, 0, 23),
        random.choice(("*", field(random, 1, 12))),
    )
    return f"{minute} {hour} {dates} {month} {week}"


def changes(zone: Zone) -> list[int]:
    return [start for start in zone.starts if START <= start < END]


def local_times(text: str, begin: int) -> Iterator[int]:
    """The local firings from `begin` on, as cronsim counts them where no clock changes."""
    for found in CronSim(text, (EPOCH + timedelta(milliseconds=begin)).replace(tzinfo=None)):
        yield as_moment(found.replace(tzinfo=UTC))


def ruled(text: str, cron: Cron, after: int, zone: Zone) -> int:
    """The next firing by SPEC section 3, in its words.

    A local time that is skipped fires at the first instant after the gap; one that occurs twice fires at its
    first occurrence, and what recurs within the hour, or every hour, in both.
    """
    best: int | None = None
    for local in local_times(text, zone.to_local(after) - NEAR):
        if best is not None and local > zone.to_local(best) + NEAR:
            break
        instants = zone.instants(local) or (zone.after_gap(local),)
        fires = [moment for moment in (instants if cron.recurring else instants[:1]) if moment > after]
        best = min([*fires, *([] if best is None else [best])], default=None)
    assert best is not None
    return best


def others(text: str, after: int, info: ZoneInfo) -> dict[str, int]:
    """The next firing as both see it."""
    begin = as_datetime(after).astimezone(info)
    return {
        "cronsim": as_moment(next(CronSim(text, begin)).astimezone(UTC)),
        "croniter": as_moment(croniter(text, begin).get_next(datetime).astimezone(UTC)),
    }


def is_explained(found: int, theirs: int, zone: Zone) -> bool:
    """Whether the earlier answer lies where clocks change: there a policy decides, not the fields."""
    return any(abs(start - min(found, theirs)) <= NEAR for start in changes(zone))


def is_stepped_over(who: str, after: int, found: int, zone: Zone) -> bool:
    """cronsim goes on by whole hours from where clocks moved by a part of one, and so begins amid an hour."""
    moved = [start for start in changes(zone) if after - NEAR < start < found]
    parts = [zone.to_local(start) - zone.to_local(start - 1) - 1 for start in moved]
    return who == "cronsim" and any(part % HOUR for part in parts)


def compare(name: str, per_change: int) -> None:
    zone, info, random = load_zone(name), info_of(name), Random(name)
    marks = changes(zone) or [random.randrange(START, END) for _ in range(32)]
    for mark in marks:
        for _ in range(per_change):
            text, after = expression(random), mark + random.randrange(-36 * 60, 36 * 60) * MINUTE
            cron = parse_cron(text)
            found = cron.next(after, zone)
            assert found == ruled(text, cron, after, zone), (text, name, after)
            assert found is not None
            for who, theirs in others(text, after, info).items():
                explained = is_explained(found, theirs, zone) or is_stepped_over(who, after, found, zone)
                assert theirs == found or explained, (who, text, name, after)


@each_row("name", ZONES)
def test_two_other_evaluators_agree_but_for_the_policy_of_clock_changes(name: str) -> None:
    """Random expressions, random moments around every change of clocks from 2020 to 2035 (SPEC section 3)."""
    compare(name, 4)


@pytest.mark.long
@pytest.mark.parametrize("name", ZONES)
def test_two_other_evaluators_agree_at_length(name: str) -> None:
    """The same with many more expressions a change."""
    compare(name, 100)


def test_far_from_clock_changes_both_agree_without_exception() -> None:
    """In UTC there is no policy: the fields alone decide, for croniter and cronsim alike."""
    random, zone = Random(7), load_zone("UTC")
    for _ in range(500):
        text, after = expression(random), random.randrange(START, END)
        assert set(others(text, after, info_of("UTC")).values()) == {parse_cron(text).next(after, zone)}, text
