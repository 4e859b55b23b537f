"""When cron fires: against a plain walk, at the ends of time, around clock changes (SPEC section 3)."""

from bisect import bisect_right
from calendar import monthrange
from datetime import UTC, date, datetime, timedelta
from random import Random

from croniter import croniter
from cronsim import CronSim
from hypothesis import assume, given
from hypothesis import strategies as st

from scheduler_service.domain.document import Cursor
from scheduler_service.domain.errors import ExpressionError
from scheduler_service.domain.moments import DAY, HOUR, SECOND, as_datetime, as_moment
from scheduler_service.timing.cron import Cron, parse_cron
from scheduler_service.timing.schedule import following
from scheduler_service.timing.timer import TimerText, compile_timer
from scheduler_service.timing.zones import Zone, load_zone

ZONES = ["UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia"]


def at(text: str) -> int:
    return as_moment(datetime.fromisoformat(text))


def span(low: int, high: int):
    return st.integers(low, high).map(str)


def field(low: int, high: int, step: int):
    number = span(low, high)
    pair = st.tuples(st.integers(low, high), st.integers(low, high)).map(sorted)
    item = st.one_of(
        number,
        st.just("*"),
        span(1, step).map(lambda by: f"*/{by}"),
        st.tuples(number, span(1, step)).map("/".join),
        pair.map(lambda ends: f"{ends[0]}-{ends[1]}"),
        st.tuples(pair, span(1, step)).map(lambda both: f"{both[0][0]}-{both[0][1]}/{both[1]}"),
    )
    return st.lists(item, min_size=1, max_size=3).map(",".join)


DATES = field(1, 31, 31) | st.sampled_from(
    ["L", "L-1", "L-3", "LW", "L-2W", "15W", "1W", "31W", "1,L", "29,LW"]
)
WEEKS = field(1, 7, 7) | st.sampled_from(["6L", "1L", "2#1", "6#3", "1#5", "MON,6#2"])
QUARTZ = st.one_of(
    st.tuples(field(0, 59, 59), field(0, 59, 59), field(0, 23, 23), DATES, field(1, 12, 12), st.just("?")),
    st.tuples(field(0, 59, 59), field(0, 59, 59), field(0, 23, 23), st.just("?"), field(1, 12, 12), WEEKS),
).map(" ".join)
UNIX = st.tuples(
    field(0, 59, 90), field(0, 23, 90), field(1, 31, 90) | st.just("L"), field(1, 12, 90), field(0, 6, 90)
).map(" ".join)
LATEST = at("2190-01-01T00:00:00+00:00")
MOMENTS = st.integers(at("1971-01-01T00:00:00+00:00"), LATEST)


def values(text: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for item in text.split(","):
        body, _, step = item.partition("/")
        first, _, last = body.partition("-")
        start = low if first == "*" else int(first)
        end = int(last) if last else high if step or first == "*" else start
        found |= set(range(start, end + 1, int(step or 1)))
    return found


def working_day(day: date) -> date:
    length = monthrange(day.year, day.month)[1]
    near = [day.replace(day=number) for number in range(max(1, day.day - 2), min(length, day.day + 2) + 1)]
    return min((one for one in near if one.weekday() < 5), key=lambda one: (abs(one - day), one))


def date_fits(item: str, day: date) -> bool:
    length = monthrange(day.year, day.month)[1]
    if item.startswith("L"):
        back = int(item.strip("LW-") or 0)
        meant = day.replace(day=length - back)
        return day == (working_day(meant) if item.endswith("W") else meant)
    if item.endswith("W"):
        number = int(item[:-1])
        return number <= length and day == working_day(day.replace(day=number))
    return day.day in values(item, 1, 31)


def week_fits(item: str, day: date, sunday: int) -> bool:
    weekday = day.isoweekday() % 7 + sunday
    item = item.replace("MON", "2")
    if item.endswith("L"):
        return weekday == int(item[:-1]) and (day + timedelta(7)).month != day.month
    if "#" in item:
        name, _, nth = item.partition("#")
        return weekday == int(name) and (day.day - 1) // 7 + 1 == int(nth)
    if sunday == 0 and "*" not in item:
        # In Unix cron 7 is Sunday too, so that 1/2 goes on to it.
        return weekday in {value % 7 for value in values(item, 0, 7)}
    return weekday in values(item, sunday, 6 + sunday)


def day_fits(expression: str, day: date) -> bool:
    fields = expression.split()
    dates, months, week = fields[-3:]
    if day.month not in values(months, 1, 12):
        return False
    sunday = 1 if len(fields) == 6 else 0
    by_date = dates == "?" or any(date_fits(item, day) for item in dates.split(","))
    by_week = week == "?" or any(week_fits(item, day, sunday) for item in week.split(","))
    opened = any({"*", "*/1"} & set(text.split(",")) for text in (dates, week))
    return by_date and by_week if sunday or opened else by_date or by_week


def walk(expression: str, start: date, days: int) -> list[int]:
    """Every local firing of some days as seconds since 1970, by the plain meaning of the fields."""
    fields = expression.split()
    second, minute, hour = fields[:3] if len(fields) == 6 else ["0", *fields[:2]]
    clocks = [
        (h * 60 + m) * 60 + s
        for h in sorted(values(hour, 0, 23))
        for m in sorted(values(minute, 0, 59))
        for s in sorted(values(second, 0, 59))
    ]
    found = []
    for number in range(days):
        day = start + timedelta(number)
        if day_fits(expression, day):
            midnight = (day - date(1970, 1, 1)).days * 86_400
            found += [midnight + clock for clock in clocks]
    return found


def read(expression: str) -> Cron:
    try:
        return parse_cron(expression)
    except ExpressionError as refusal:
        assume(refusal.code != "never_fires")
        raise


@given(QUARTZ | UNIX, st.dates(date(1971, 1, 1), date(2190, 1, 1)), st.integers(0, 40 * 86_400))
def test_every_local_time_is_that_of_a_plain_walk(expression: str, start: date, into: int):
    """In UTC, forward and back, from any second."""
    cron, zone, days = read(expression), load_zone("UTC"), 62
    expected = walk(expression, start, days)
    low = (start - date(1970, 1, 1)).days * 86_400
    place = bisect_right(expected, low + into)
    found = cron.next((low + into) * SECOND, zone)
    if place < len(expected):
        assert found == expected[place] * SECOND
    else:
        assert found is None or found >= (low + days * 86_400) * SECOND
    back = cron.previous((low + into + 1) * SECOND, zone)
    if place:
        assert back == expected[place - 1] * SECOND
    else:
        assert back is None or back < low * SECOND


def meant(cron: Cron, local: list[int], zone: Zone) -> list[int]:
    """The moments of local times by the words of SPEC section 3."""
    moments: set[int] = set()
    for second in local:
        instants = zone.instants(second * SECOND)
        if not instants:
            moments.add(zone.after_gap(second * SECOND))
        else:
            moments.update(instants if cron.recurring else instants[:1])
    return sorted(moments)


@given(
    st.tuples(st.sampled_from(["0", "30"]), field(0, 59, 59), field(0, 23, 23)).map(" ".join),
    st.sampled_from(ZONES[1:]),
    st.data(),
)
def test_clock_changes_follow_the_words_of_the_specification(clock: str, name: str, data: st.DataObject):
    """Skipped times become one at the end of the gap; repeated ones fire once, or in both passes."""
    cron, zone = parse_cron(f"{clock} * * ?"), load_zone(name)
    changes = [start for start in zone.starts if 730 * DAY < start < LATEST]
    change = data.draw(st.sampled_from(changes or [730 * DAY]))
    start = date(1970, 1, 1) + timedelta(max(change // DAY - 2, 2))
    expected = meant(cron, walk(f"{clock} * * ?", start, 6), zone)
    low, high = (change // DAY - 1) * DAY, (change // DAY + 2) * DAY
    assume(low > 2 * DAY)
    expected = [moment for moment in expected if low < moment < high]
    found, moment = [], low
    while (moment := cron.next(moment, zone)) < high:
        found.append(moment)
    assert found == expected
    back, moment = [], high
    while (moment := cron.previous(moment, zone)) > low:
        back.append(moment)
    assert back == expected[::-1]


@given(QUARTZ | UNIX, st.sampled_from(ZONES), MOMENTS)
def test_next_and_previous_agree(expression: str, name: str, moment: int):
    """`next` and `previous` are strict, walk the same firings, and never skip one."""
    cron, zone = read(expression), load_zone(name)
    following, preceding = cron.next(moment, zone), cron.previous(moment, zone)
    if following is not None:
        assert following > moment
        assert cron.next(following - 1, zone) == following
        assert (cron.previous(following, zone) or moment) <= moment
    if preceding is not None:
        assert preceding < moment
        assert cron.previous(preceding + 1, zone) == preceding
        assert (cron.next(preceding, zone) or moment) >= moment


def test_a_firing_that_is_known_is_no_other() -> None:
    """Repeated searches in any order and zone give the result of a fresh expression."""
    zones = [load_zone("UTC"), load_zone("Europe/Berlin")]
    asked = parse_cron("0 30 2 * * ?")
    start = 1_774_000_000_000
    moments = [start + step * 3_000_000 for step in (0, 1, 2, 40, 41, 3, 300, 299, 298, 0)]
    for moment in moments:
        for zone in zones:
            assert asked.next(moment, zone) == parse_cron("0 30 2 * * ?").next(moment, zone)
            exact = asked.next(moment, zone)
            assert exact is not None
            assert asked.next(exact - 1, zone) == exact
            assert asked.next(exact, zone) == parse_cron("0 30 2 * * ?").next(exact, zone)
    assert asked == parse_cron("0 30 2 * * ?")
    assert hash(asked) == hash(parse_cron("0 30 2 * * ?"))


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
    # A fixed time fires at its first occurrence; a pattern with a step fires in both passes
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
    # A list does not recur: only `*` and steps fire in both passes, a list of the same minutes does not
    listed = fires("0 0,30 2 * * ?", "2026-10-24T12:00:00+00:00", 3, "Europe/Paris")
    assert listed == ["2026-10-25T00:00:00", "2026-10-25T00:30:00", "2026-10-26T01:00:00"]
    assert parse_cron("0 0-30 2 * * ?").recurring is False
    assert parse_cron("0 30 1-3/2 * * ?").recurring is True


def test_a_day_that_a_zone_left_out() -> None:
    """Samoa had no 30 December 2011: what it held fires at the first instant after it, then all goes on."""
    text = TimerText(due_time="2005-06-01 12:00:00", period="P1D", timezone="Pacific/Apia")
    timer = compile_timer(text, default_zone="UTC")
    moment = as_moment(datetime(2011, 12, 25, tzinfo=UTC))
    found = []
    while len(found) < 2_000:
        after = following(timer, Cursor(0, moment))
        assert after is not None
        found.append(after - moment)
        moment = after
    assert set(found[1:]) == {DAY, DAY - HOUR, DAY + HOUR, 12 * HOUR}
    assert found.count(12 * HOUR) == 2


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
    # Milliseconds do not hide a firing: strictly after and strictly before
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


START, END = (as_moment(datetime(year, 1, 1, tzinfo=UTC)) for year in (2020, 2036))


def item(random: Random, low: int, high: int) -> str:
    first, last = sorted(random.sample(range(low, high + 1), 2))
    step = random.randint(1, high - low)
    return random.choice((f"{first}", f"{first}", f"{first}-{last}", f"{first}-{last}/{step}"))


def drawn(random: Random, low: int, high: int) -> str:
    return ",".join(item(random, low, high) for _ in range(random.choice((1, 1, 1, 2, 3))))


def drawn_field(random: Random, low: int, high: int) -> str:
    every = f"*/{random.randint(1, high - low)}"
    return random.choice(("*", every, drawn(random, low, high), drawn(random, low, high)))


def expression(random: Random) -> str:
    dates, week = random.choice(
        (
            ("*", "*"),
            (drawn_field(random, 1, 31), "*"),
            ("*", drawn_field(random, 0, 6)),
            (drawn(random, 1, 31), drawn(random, 0, 6)),
        )
    )
    minute, hour, month = (
        drawn_field(random, 0, 59),
        drawn_field(random, 0, 23),
        random.choice(("*", drawn_field(random, 1, 12))),
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
