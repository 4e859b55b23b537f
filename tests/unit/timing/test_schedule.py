"""The bare moments of a timer in order (SPEC section 3)."""

from itertools import islice, pairwise

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.document import Cursor
from scheduler_service.domain.moments import DAY, MINUTE, SECOND, rfc3339
from scheduler_service.timing.durations import LATEST
from scheduler_service.timing.misfire import resume
from scheduler_service.timing.preview import FiringCounts, describe
from scheduler_service.timing.schedule import (
    advance,
    between,
    latest,
    moments_of_run,
    planned_between,
    preceding,
    tally,
    upcoming,
    warnings_at,
)
from scheduler_service.timing.timer import RECURRING, Timer, TimerText, stand_still
from scheduler_service.timing.times import local_text
from tests.rows import each_row
from tests.unit.timing.timers import NOON, anchors, at, make, timers


@given(timers, anchors, st.integers(0, 60))
@settings(deadline=None, max_examples=60)
def test_looking_back_agrees_with_walking(timer: Timer, anchor: int, count: int) -> None:
    """Arithmetic and the walk find the same moments, for every cursor."""
    firings = list(islice(between(timer, Cursor(anchor), "seed", LATEST), count + 1))
    cursor = Cursor(anchor)
    for place, firing in enumerate(firings):
        assert latest(timer, cursor, "seed", firing.base + 1) == firing
        assert preceding(timer, cursor, firing.base) == (firings[place - 1].base if place else None)
        assert tally(timer, cursor, firing.base, 1_000) == place + 1
    middle = len(firings) // 2
    for firing in firings[:middle]:
        cursor = advance(cursor, firing)
    assert list(islice(between(timer, cursor, "seed", LATEST), len(firings) - middle)) == firings[middle:]
    if firings[middle:]:
        assert tally(timer, cursor, firings[-1].base, 1_000) == len(firings) - middle


@each_row(
    ("due_time", "period", "anchor", "expected"),
    [
        ("2026-03-29 02:30:00", "P1D", "2026-03-27", ["03-29 03:00", "03-30 02:30", "03-31 02:30"]),
        ("2026-03-29 02:30:00", "P1D", "2026-06-01", ["06-01 02:30", "06-02 02:30", "06-03 02:30"]),
        ("2026-03-29T02:30:00", "P1M", "2026-03-27", ["03-29 03:00", "04-29 02:30", "05-29 02:30"]),
        ("2026-03-29 02:30:00", "PT24H", "2026-03-27", ["03-29 03:00", "03-30 03:00", "03-31 03:00"]),
        ("2026-03-28 02:30:00", "P1D", "2026-03-28", ["03-28 02:30", "03-29 03:00", "03-30 02:30"]),
        ("2026-10-25T02:30:00+01:00", "P1D", "2026-10-25", ["10-25 02:30", "10-26 02:30", "10-27 02:30"]),
        ("P1D", "P1W", "2026-03-28T01:30:00Z", ["03-29 03:00", "04-05 02:30", "04-12 02:30"]),
    ],
)
def test_a_skipped_due_time_keeps_its_local_time(
    due_time: str, period: str, anchor: str, expected: list[str]
) -> None:
    """SPEC section 3: it fires once after the gap; calendar durations count from the time as written."""
    timer = make(due_time, period, timezone="Europe/Berlin")
    firings = islice(between(timer, Cursor(at(anchor)), "", LATEST), 3)
    assert [local_text(one.base, timer.zone)[5:16].replace("T", " ") for one in firings] == expected


def test_a_job_that_kept_the_shifted_time_goes_on() -> None:
    """An older version has fired at 03:00 on these days: none is doubled, none left out."""
    timer = make("2026-03-29 02:30:00", "R9/P1D", timezone="Europe/Berlin")
    fired = Cursor(at("2026-03-27"), at("2026-04-01T03:00:00+02:00"), 4)
    left = [rfc3339(one.base)[5:16] for one in between(timer, fired, "", LATEST)]
    assert left == [f"04-0{day}T00:30" for day in range(2, 7)]


def test_a_far_moment_is_found_without_walking() -> None:
    """A job that slept for a century costs no more than one that slept for an hour."""
    far = NOON + 36_500 * DAY
    for period in ("1ms", "P1D", "P1M", "PT7H"):
        timer = make("2024-05-15 12:00:00", period)
        found = preceding(timer, Cursor(NOON), far)
        assert found is not None
        assert far - 31 * DAY <= found < far
    assert tally(make("0s", "1ms"), Cursor(NOON), far, 0) == 36_500 * DAY + 1
    # Nothing fires beyond the year 9999, and nothing fails because of it
    timer = make("9999-12-31 23:59:59", "P1Y")
    assert upcoming(timer, Cursor(NOON), "") is None
    assert upcoming(make("P9000Y", "1s"), Cursor(NOON), "") is None
    assert upcoming(make("0s", "P9000Y"), Cursor(NOON, NOON, 1), "") is None
    assert latest(make("0s", "P5000Y"), Cursor(NOON), "", LATEST + 1) is not None
    assert upcoming(make("0s", "10s", ttl="P9999Y", jitter=MINUTE), Cursor(NOON), "") is not None


@given(timers, anchors)
@settings(deadline=None, max_examples=30)
def test_a_timer_that_stands_still_has_no_moment(timer: Timer, anchor: int) -> None:
    """Nothing of it is due, missed or counted, whatever its kind; it says why (SPEC section 2)."""
    still = stand_still(TimerText(due_time="x", period=str(timer.kind)), "no such zone")
    for one in (still, msgspec.structs.replace(timer, trouble="no such zone")):
        cursor = Cursor(anchor)
        assert list(between(one, cursor, "seed", LATEST)) == []
        assert preceding(one, cursor, LATEST) is None
        assert tally(one, cursor, LATEST, 100) == 0
        assert resume(one, cursor, now=anchor + DAY, seed="seed").count == 0
        assert FiringCounts(one, anchor).within(anchor, anchor + DAY) == 0
        assert describe(one) == "no such zone"


def moments(timer: Timer, anchor: int = NOON, count: int = 5, seed: str = "") -> list[str]:
    coming = between(timer, Cursor(anchor), seed, LATEST)
    return [rfc3339(firing.planned_at)[:19] for firing in islice(coming, count)]


@each_row(
    ("due_time", "period", "expected"),
    [
        (None, None, ["2024-05-15T12:00:00"]),
        ("1h", "0s", ["2024-05-15T13:00:00"]),
        ("10s", "R4/PT3S", [f"2024-05-15T12:00:{second}" for second in (10, 13, 16, 19)]),
        ("0s", "R2/PT1H", ["2024-05-15T12:00:00", "2024-05-15T13:00:00"]),
        ("2024-05-15 12:00:00", "0s", ["2024-05-15T12:00:00"]),
        ("2024-05-15 11:59:59", "0s", []),
        ("2024-05-15 11:00:30", "R3/PT1M", [f"2024-05-15T12:0{minute}:30" for minute in (0, 1, 2)]),
        ("2024-05-15 11:00:00", "R2/PT1H", ["2024-05-15T12:00:00", "2024-05-15T13:00:00"]),
        ("0s", "external", []),
        ("0s", "0 0 12 15 5 ? 2024/2", [f"20{year}-05-15T12:00:00" for year in (26, 28, 30, 32, 34)]),
        ("0s", "1 0 9 1 10 ? 2023", []),
        (
            "2024-01-31 08:00:00",
            "P1M",
            [f"2024-{day}T08:00:00" for day in ("05-31", "06-30", "07-31", "08-31", "09-30")],
        ),
    ],
)
def test_each_kind_fires_when_it_says(due_time: str | None, period: str | None, expected: list[str]) -> None:
    """SPEC section 3, kinds: cron strictly after the creation; a past phase goes on; repeats in all."""
    assert moments(make(due_time, period)) == expected


def test_start_and_end_are_included() -> None:
    """SPEC section 3: none before startAt, none after endAt; the moments themselves are included."""
    window = {"start_at": "2024-05-15 13:00:00", "end_at": "2024-05-15 15:00:00"}
    hours = [f"2024-05-15T{hour}:00:00" for hour in (13, 14, 15)]
    assert moments(make("0s", "0 0 * * * ?", **window)) == hours
    assert moments(make("0s", "1h", **window)) == hours
    assert moments(make("0s", "R2/PT1H", **window)) == hours[:2]
    assert moments(make(**window)) == hours[:1]
    assert moments(make(start_at="2024-05-15 11:00:00")) == ["2024-05-15T12:00:00"]
    assert moments(make(end_at="2024-05-15 11:59:59")) == []
    # SPEC section 3: no firing after it; the moment itself is included
    assert len(moments(make("0s", "1h", ttl="2h"))) == 3
    assert len(moments(make("0s", "1h", ttl="2024-05-15 13:30:00"))) == 2
    assert moments(make("P1M", "0s", ttl="P1M")) == ["2024-06-15T12:00:00"]
    assert len(moments(make("0s", "1h", ttl="9h", end_at="2024-05-15 13:00:00"))) == 2


def test_a_cursor_goes_on_where_it_stands() -> None:
    """SPEC section 3, clock: the next firing is later than the last planned one; repeats are counted."""
    timer = make("10s", "R4/PT3S")
    cursor = Cursor(NOON)
    for used in range(4):
        firing = upcoming(timer, cursor, "")
        assert firing is not None
        assert firing.base == NOON + 10 * SECOND + used * 3 * SECOND
        cursor = advance(cursor, firing)
    assert cursor.used == 4
    assert upcoming(timer, cursor, "") is None
    assert upcoming(make(), Cursor(NOON, NOON, 1), "") is None


def test_jitter_is_stable_within_bounds_and_differs_by_job() -> None:
    """SPEC section 3: jitter is part of the plan."""
    timer = make("0s", "0 * * * * ?", jitter=30_000)
    first = list(islice(between(timer, Cursor(NOON), "a", LATEST), 200))
    assert first == list(islice(between(timer, Cursor(NOON), "a", LATEST), 200))
    assert first != list(islice(between(timer, Cursor(NOON), "b", LATEST), 200))
    waits = [firing.planned_at - firing.base for firing in first]
    assert min(waits) < 3_000
    assert 27_000 < max(waits) <= 30_000
    # Jitter ends before the next moment: where one comes each second millisecond, one is left for it
    found = islice(between(make("0s", "2ms", jitter=1_000), Cursor(NOON), "seed", LATEST), 100)
    assert {firing.planned_at - firing.base for firing in found} == {0, 1}


@given(timers, anchors, st.integers(0, 40))
@settings(deadline=None, max_examples=60)
def test_firings_rise_and_jitter_keeps_its_place(timer: Timer, anchor: int, count: int) -> None:
    """SPEC section 3: in order, each before the next moment, none before the anchor or after the end."""
    firings = list(islice(between(timer, Cursor(anchor), "seed", LATEST), count + 1))
    for firing in firings:
        assert anchor <= firing.base <= firing.planned_at <= firing.base + timer.jitter
        if isinstance(timer.ttl, int):
            assert firing.planned_at <= timer.ttl
    for earlier, later in pairwise(firings):
        assert earlier.planned_at < later.base


@each_row(
    ("members", "codes"),
    [
        ({"due_time": "2024-05-15 11:59:59", "period": "0s"}, ["in_the_past"]),
        ({"due_time": "2024-05-15 11:59:59", "period": "5m"}, []),
        ({"due_time": "0s", "period": "1 0 9 1 10 ? 2023"}, ["in_the_past"]),
        ({"due_time": "0s", "period": "0 0 9 * * ?"}, []),
        ({"end_at": "2024-05-15 11:00:00"}, ["in_the_past"]),
        ({"due_time": "2h", "period": "5m", "ttl": "1h"}, ["never_fires"]),
        ({"due_time": "P9000Y", "period": "0s"}, ["never_fires"]),
        ({"due_time": "P9000Y", "period": "1h"}, ["never_fires"]),
        ({"due_time": "9999-01-01 00:00:00", "period": "1h"}, []),
        ({"due_time": "0s", "period": "external"}, []),
        ({}, []),
    ],
)
def test_what_can_no_longer_fire_is_said(members: dict[str, str], codes: list[str]) -> None:
    """`in_the_past` needs the moment of creation; `never_fires` is for no moment at all (SPEC section 3)."""
    assert [warning.code for warning in warnings_at(make(**members), NOON)] == codes


@given(timers, anchors, st.integers(0, 40), st.integers(0, 20))
@settings(deadline=None, max_examples=60)
def test_the_plan_between_two_moments_is_what_a_walk_finds(
    timer: Timer, anchor: int, begin: int, more: int
) -> None:
    """Whatever has fired; with jitter too."""
    firings = list(islice(between(timer, Cursor(anchor), "seed", LATEST), begin + more + 1))
    if len(firings) <= begin or timer.kind not in RECURRING:
        return
    part = firings[begin:]
    first, last = part[0].planned_at, part[-1].planned_at
    assert list(planned_between(timer, Cursor(anchor), "seed", first, last)) == part


@each_row("jitter", [0, 90_000])
def test_a_run_of_the_ledger_has_its_moments_again(jitter: int) -> None:
    """By the period of the timer; evenly where the count says that it had another one then."""
    timer = make("1h", "10m", jitter=jitter)
    ten = [NOON + place * 600_000 for place in range(6)]
    assert list(moments_of_run(timer, ten[0], ten[-1], 6, NOON)) == ten
    assert list(moments_of_run(timer, ten[0], ten[-1] + jitter // 2, 6, ten[4] - 1)) == [
        ten[4],
        ten[-1] + jitter // 2,
    ]
    assert list(moments_of_run(timer, ten[0], ten[-1], 2, NOON)) == [ten[0], ten[-1]]
    assert list(moments_of_run(timer, NOON, NOON, 1, NOON)) == [NOON]
    monthly = make("1h", "P1M", jitter=jitter)
    months = [at(f"2024-0{month}-28T02:30:00Z") for month in range(2, 6)]
    assert list(moments_of_run(monthly, months[0], months[-1], 4, NOON)) == months[-1:]
    assert list(moments_of_run(monthly, months[0], months[-1], 4, 0)) == months
