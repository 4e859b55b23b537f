"""Cron against the conformance data: Quartz, Unix and the policy around clock changes (SPEC section 3).

What is left out, and why, stands in `cron_left_out.md` beside this file.
"""

from scheduler_service.timing.cron import parse_cron
from scheduler_service.timing.zones import load_zone
from tests.conformance.cron_judging import (
    faults,
    first_answer,
    judge,
    moment,
    walk_back,
    walk_forward,
    zone_of,
)
from tests.conformance_data import Row, rows

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
