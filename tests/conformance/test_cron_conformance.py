"""Cron against the conformance data: Quartz, Unix and the policy around clock changes (SPEC section 3).

What is left out, and why, stands in `cron_left_out.md` beside this file.
"""

import re
from datetime import datetime, timedelta

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.domain.moments import as_moment
from scheduler_service.timing.cron import Cron, parse_cron
from scheduler_service.timing.cron_fields import WEEKDAYS
from scheduler_service.timing.zones import DAWN, Zone, load_zone
from tests.conformance_data import Row, rows


def moment(text: str) -> int:
    return as_moment(datetime.fromisoformat(text))


def end_of(row: Row) -> int:
    """Before which moment a row looks back; a part of a millisecond counts as a whole one."""
    return moment(row["start"]) + (
        row["inclusive"] or datetime.fromisoformat(row["start"]).microsecond % 1000 > 0
    )


def zone_of(name: str) -> Zone:
    """A named zone, or one that keeps an offset for ever, as in `fixed:-08:00`."""
    if not name.startswith("fixed:"):
        return load_zone(name)
    offset = datetime.fromisoformat(f"2000-01-01T00:00:00{name.removeprefix('fixed:')}").utcoffset()
    shift = offset // timedelta(milliseconds=1)
    return Zone(name=name, starts=(DAWN,), offsets=(shift,), reached=(DAWN,))


def walk_forward(cron: Cron, start: int, zone: Zone, count: int) -> list[int]:
    found: list[int] = []
    at: int | None = start
    while len(found) < count and (at := cron.next(at, zone)) is not None:
        found.append(at)
    return found


def walk_back(cron: Cron, start: int, zone: Zone, count: int) -> list[int]:
    found: list[int] = []
    at: int | None = start
    while len(found) < count and (at := cron.previous(at, zone)) is not None:
        found.append(at)
    return found


def judge(row: Row) -> str | None:
    """What is wrong with our answer to a row; None: nothing."""
    try:
        cron = parse_cron(row["expr"])
    except ExpressionError as refusal:
        refused = row["kind"] in {"invalid", "lenient_garbage"}
        never = row["kind"] == "never" and refusal.code == "never_fires"
        valid = row["kind"] == "valid" and refusal.code == "never_fires"
        return None if refused or never or valid else f"{row['id']} {row['expr']}: {refusal.message}"
    if parse_cron(cron.normal_form) != cron:
        return f"{row['id']}: the normal form {cron.normal_form} is another expression"
    if row["kind"] == "valid":
        return None
    if row["kind"] in {"invalid", "lenient_garbage"}:
        return f"{row['id']} {row['expr']}: accepted as {cron.normal_form}"
    return judge_moments(row, cron)


def judge_moments(row: Row, cron: Cron) -> str | None:
    zone, start = zone_of(row["tz"]), moment(row["start"])
    if row["kind"] == "match":
        found = cron.next(start - 1, zone) == start
        return None if found == row["expect"] else f"{row['id']} {row['expr']}: match {found}"
    expected = [moment(text) for text in row["expect"]]
    count = len(expected) + 1 if row.get("complete") else len(expected) or 1
    if row["kind"] == "prev":
        found = walk_back(cron, end_of(row), zone, count)
    else:
        found = walk_forward(cron, start - row["inclusive"], zone, count)
    return None if found == expected else f"{row['id']} {row['expr']}: {found} is not {expected}"


def first_answer(row: Row) -> int | None:
    """Our first answer to a row that asks for moments."""
    cron, zone = parse_cron(row["expr"]), zone_of(row["tz"])
    if row["kind"] == "prev":
        return cron.previous(end_of(row), zone)
    return cron.next(moment(row["start"]) - row["inclusive"], zone)


def faults(judged: list[Row]) -> list[str]:
    return [fault for row in judged if (fault := judge(row)) is not None]


DST_COLUMN = "vixie/cronos"


def stars_beside_a_day(row: Row) -> bool:
    """Quartz refuses what SPEC section 3 reads: `*` in a day field beside a given one, or in both."""
    fields = row["expr"].split()
    return row.get("strictness") == "should" and len(fields) >= 6 and "*" in {fields[3], fields[5]}


def restricts_both_days(row: Row) -> bool:
    """Some of these rows were made with AND between the day fields; SPEC section 3 says OR."""
    dates, _, week = row["expr"].split()[2:]
    return "*" not in {dates, week}


def test_quartz_next_match_valid_and_never():
    """Every moment that Quartz and the plain meaning agree on is ours."""
    kinds = {"next", "match", "valid", "never"}
    assert faults([row for row in rows("cron_quartz") if row["kind"] in kinds]) == []


def test_quartz_refusals():
    """What must or should be refused is refused, except that a `*` in a day field means `?`."""
    judged = [
        row
        for row in rows("cron_quartz")
        if row["kind"] in {"invalid", "lenient_garbage"} and row.get("strictness") != "may"
    ]
    wrong = [row for row in judged if judge(row) is not None]
    assert [(row["id"], row["expr"]) for row in wrong if not stars_beside_a_day(row)] == []


def test_quartz_disputed():
    """Where Quartz versions disagree the plain meaning is ours (SPEC section 3)."""
    for row in rows("cron_quartz_disputed"):
        expected = [moment(text) for text in row["expect"]["bruteforce"]]
        found = walk_forward(
            parse_cron(row["expr"]), moment(row["start"]), load_zone(row["tz"]), len(expected)
        )
        assert found == expected, row["id"]


def ends_a_gap(row: Row) -> bool:
    """Our answer is the first instant after a gap (SPEC section 3); the evaluators have another policy."""
    zone = zone_of(row["tz"])
    starts = zip(zone.starts[1:], zone.offsets[1:], zone.offsets, strict=False)
    return first_answer(row) in {start for start, after, before in starts if after > before}


def test_unix_agreed():
    """Every answer on which both common evaluators of Unix cron agree is ours; but what a gap skips fires.

    The two leave out what an hourly pattern loses in a gap; by SPEC section 3 it fires at the gap's end.
    """
    wrong = [row for row in rows("cron_unix5") if row["agreed"] and judge(row) is not None]
    assert [judge(row) for row in wrong if not (row["dst"] and ends_a_gap(row))] == []


def test_unix_previous():
    """Going back gives the moments that the evaluators' own tests promise, in plain expressions."""
    judged = [row for row in rows("cron_unix5") if row["core"] and row["kind"] == "prev"]
    wrong = [row for row in judged if not restricts_both_days(row) and judge(row) is not None]
    assert [judge(row) for row in wrong if not (row["dst"] and ends_a_gap(row))] == []


def test_clock_changes():
    """Around gaps and overlaps the declared policy holds throughout, there and back (SPEC section 3)."""
    wrong = []
    for row in rows("cron_dst_policies"):
        cron, zone = parse_cron(row["expr"]), load_zone(row["tz"])
        expected = [moment(text) for text in row["fires"][DST_COLUMN]]
        if walk_forward(cron, moment(row["start"]), zone, row["n"]) != expected:
            wrong.append((row["id"], row["expr"]))
        if walk_back(cron, expected[-1] + 1, zone, len(expected)) != expected[::-1]:
            wrong.append((row["id"], row["expr"], "back"))
    assert wrong == []


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
