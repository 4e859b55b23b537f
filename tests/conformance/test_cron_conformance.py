"""Cron against the conformance data: Quartz, Unix and the policy around clock changes (SPEC section 3)."""

import json
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path

import pytest

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.domain.moments import as_moment
from scheduler_service.timing.cron import Cron, parse_cron
from scheduler_service.timing.zones import DAWN, Zone, load_zone

DATA = Path(__file__).resolve().parents[3] / "shared" / "conformance"
DST_COLUMN = "vixie/cronos"


@lru_cache
def rows(name: str) -> list[dict]:
    path = DATA / f"{name}.jsonl"
    if not path.exists():
        pytest.skip(f"the conformance data {name}.jsonl is not there")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def moment(text: str) -> int:
    return as_moment(datetime.fromisoformat(text))


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


def judge(row: dict) -> str | None:
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


def judge_moments(row: dict, cron: Cron) -> str | None:
    zone, start = zone_of(row["tz"]), moment(row["start"])
    if row["kind"] == "match":
        found = cron.next(start - 1, zone) == start
        return None if found == row["expect"] else f"{row['id']} {row['expr']}: match {found}"
    expected = [moment(text) for text in row["expect"]]
    count = len(expected) + 1 if row.get("complete") else len(expected) or 1
    if row["kind"] == "prev":
        found = walk_back(cron, start + row["inclusive"], zone, count)
    else:
        found = walk_forward(cron, start - row["inclusive"], zone, count)
    return None if found == expected else f"{row['id']} {row['expr']}: {found} is not {expected}"


def faults(judged: list[dict]) -> list[str]:
    return [fault for row in judged if (fault := judge(row)) is not None]


def stars_beside_a_day(row: dict) -> bool:
    """Quartz refuses what SPEC section 3 reads: `*` in a day field beside a given one, or in both."""
    fields = row["expr"].split()
    return row.get("strictness") == "should" and len(fields) >= 6 and "*" in {fields[3], fields[5]}


def restricts_both_days(row: dict) -> bool:
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


def test_unix_agreed():
    """Every answer on which both common evaluators of Unix cron agree is ours, away from clock changes."""
    agreed = [row for row in rows("cron_unix5") if row["agreed"]]
    assert faults([row for row in agreed if not row["dst"]]) == []


def test_unix_previous():
    """Going back gives the moments that the evaluators' own tests promise, in plain expressions."""
    judged = [row for row in rows("cron_unix5") if row["core"] and row["kind"] == "prev" and not row["dst"]]
    assert faults([row for row in judged if not restricts_both_days(row)]) == []


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
