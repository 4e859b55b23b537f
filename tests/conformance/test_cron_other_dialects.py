"""Cron of other dialects: the same meaning is right, the rest is read by SPEC section 3 or refused.

The classes of rows that are not judged by their own answer, and why, stand in `cron_left_out.md`.
"""

import re

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.timing.cron import Cron, parse_cron
from scheduler_service.timing.cron_fields import WEEKDAYS
from scheduler_service.timing.zones import load_zone
from tests.conformance.cron_judging import judge, judge_moments, moment, zone_of
from tests.conformance_data import Row, rows

UNIX = frozenset({"cronos5", "cronutils-cron4j", "saffron5"})
CRONOS = frozenset({"cronos5", "cronos6"})
SECOND_LAST = frozenset({"croniter-seclast"})
OPEN = frozenset({"*", "?"})
EARLIEST = 0
SPELLINGS = re.compile(r"^\s*@every_|\||^\s*\?", re.IGNORECASE)


def days_of(row: Row) -> tuple[str, str]:
    """The two day fields, empty where the text has no such fields."""
    fields = row["expr"].split()
    if row["dialect"] in UNIX:
        return (fields[2], fields[4]) if len(fields) == 5 else ("", "")
    return (fields[3], fields[5]) if len(fields) in (6, 7) else ("", "")


def counts_weekdays(week: str) -> bool:
    """A weekday is given by its number, which dialects count from 0, 1 or both."""
    return re.search(r"(?<![0-9])[0-9]", re.sub(r"[#/][0-9]+", "", week)) is not None


def differs(row: Row) -> str:
    """The class by which a row means something else here; empty: it means the same."""
    dates, week = days_of(row)
    if row["dialect"] in SECOND_LAST:
        return "second last"
    if not {dates, week} & OPEN and dates:
        return "both day fields"
    if counts_weekdays(week) and row["dialect"] not in {"cronutils-quartz", "cronos5", "cronutils-cron4j"}:
        return "numbers of weekdays"
    if row["dialect"] in UNIX and (
        re.search("L-|W|[0-9]L", f"{dates} {week}".upper()) or "?" in (dates, week)
    ):
        return "signs of Quartz in five fields"
    if SPELLINGS.search(row["expr"]) or re.fullmatch("[0-9]L", dates):
        return "spellings of one dialect"
    if row["start"] is not None and not "1970" <= row["start"][:4] <= "2199":
        return "beyond the calendar"
    return _differs_in_policy(row)


def _differs_in_policy(row: Row) -> str:
    if not row["dst"]:
        return ""
    if row["dialect"] not in CRONOS:
        return "clock changes"
    # Cronos takes a range for an interval as well; SPEC section 3 names `*` and steps alone.
    return "clock changes" if re.search(r"[0-9]-[0-9]", " ".join(row["expr"].split()[:3])) else ""


def is_read_here(row: Row) -> bool:
    """A refusal of a dialect of what SPEC section 3 reads."""
    fields, (dates, week) = row["expr"].split(), days_of(row)
    year = len(fields) == 7
    long_step = row["dialect"] in UNIX and re.search(r"/[0-9]+", row["expr"]) is not None
    stars = row["dialect"] == "cronutils-quartz" and "?" not in fields
    return year or long_step or stars or week.upper() == "L" or ("," in dates and "W" in dates.upper())


def judge_row(row: Row) -> str | None:
    """As `judge`; a row without any moment left is one that ends at once."""
    if row["kind"] not in {"never", "never_prev"}:
        return judge(row)
    try:
        cron = parse_cron(row["expr"])
    except ExpressionError as refusal:
        return None if refusal.code == "never_fires" else f"{row['id']}: {refusal.message}"
    kind = "next" if row["kind"] == "never" else "prev"
    return judge_moments(row | {"kind": kind, "complete": True}, cron)


def read(text: str) -> Cron | None:
    try:
        return parse_cron(text)
    except ExpressionError:
        return None


def test_what_means_the_same_is_right() -> None:
    """Moments, refusals and what never fires, of nine dialects, where Quartz or Unix says the same."""
    same = [row for row in rows("cron_other_dialects") if differs(row) == ""]
    wrong = [row for row in same if judge_row(row) is not None]
    assert [judge_row(row) for row in wrong if not (row["kind"] == "invalid" and is_read_here(row))] == []
    assert len(same) > 1_000


def test_the_rest_is_read_or_refused_and_walks_both_ways() -> None:
    """Nothing crashes; what is read has a normal form that reads the same, and firings in order."""
    walked = 0
    for row in rows("cron_other_dialects"):
        cron = read(row["expr"])
        if cron is None:
            continue
        assert parse_cron(cron.normal_form) == cron, row["id"]
        zone = zone_of(row["tz"] or "UTC")
        after = moment(row["start"]) if row["start"] else EARLIEST
        following = cron.next(after, zone)
        if following is not None:
            assert following > after, row["id"]
            assert cron.previous(following + 1, zone) == following, row["id"]
            walked += 1
    assert walked > 1_000


def test_both_day_fields_mean_either_in_unix_and_are_refused_in_quartz() -> None:
    """SPEC section 3, whatever the dialect of the row made of them."""
    zone, judged = load_zone("UTC"), 0
    for row in rows("cron_other_dialects"):
        if differs(row) != "both day fields":
            continue
        cron, fields = read(row["expr"]), row["expr"].split()
        if len(fields) != 5:
            assert cron is None, row["id"]
        elif cron is not None:
            by_date, by_week = (
                read(" ".join(one)) for one in ([*fields[:4], "*"], [*fields[:2], "*", *fields[3:]])
            )
            firsts = [one.next(EARLIEST, zone) for one in (by_date, by_week) if one is not None]
            opened = {"*", "*/1"} & {part for field in days_of(row) for part in field.split(",")}
            assert opened or cron.next(EARLIEST, zone) == min(first for first in firsts if first), row["id"]
            judged += 1
    assert judged > 10


def test_numbers_of_weekdays_count_from_sunday_1_in_quartz() -> None:
    """SPEC section 3: with six fields the number means the name of Quartz, or is refused."""
    judged = 0
    for row in rows("cron_other_dialects"):
        fields = row["expr"].split()
        cron = read(row["expr"])
        if differs(row) != "numbers of weekdays" or len(fields) not in (6, 7) or cron is None:
            continue
        named = re.sub(r"(?<![0-9#/])[1-7](?![0-9])", lambda found: WEEKDAYS[int(found[0]) - 1], fields[5])
        same = parse_cron(" ".join([*fields[:5], named, *fields[6:]]))
        assert (same.pattern, same.recurring) == (cron.pattern, cron.recurring), row["id"]
        judged += 1
    assert judged > 10
