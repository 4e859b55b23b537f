"""The fields of cron beside two other evaluators, croniter and cronsim.

Their common subset: numbers, ranges that rise, steps and lists; both day fields only without `*`, since the
two read `*/2` beside another day field differently. What fires where clocks change each decides by a policy
of its own: that of SPEC section 3 is judged in `test_cron_firings.py`.
"""

from datetime import UTC, datetime
from random import Random

from croniter import croniter
from cronsim import CronSim

from scheduler_service.domain.moments import as_datetime, as_moment
from scheduler_service.timing.cron import parse_cron
from scheduler_service.timing.zones import load_zone

START, END = (as_moment(datetime(year, 1, 1, tzinfo=UTC)) for year in (2020, 2036))


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


def test_two_other_evaluators_agree_far_from_clock_changes() -> None:
    """In UTC there is no policy: the fields alone decide, for croniter and cronsim alike (SPEC section 3)."""
    random, zone = Random(7), load_zone("UTC")
    for _ in range(1_000):
        text, after = expression(random), random.randrange(START, END)
        begin, ours = as_datetime(after), parse_cron(text).next(after, zone)
        theirs = (next(CronSim(text, begin)), croniter(text, begin).get_next(datetime))
        assert {as_moment(one.astimezone(UTC)) for one in theirs} == {ours}, (text, after)
