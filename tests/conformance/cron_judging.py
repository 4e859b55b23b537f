"""Judges rows of the conformance data on cron."""

from datetime import datetime, timedelta

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.domain.moments import as_moment
from scheduler_service.timing.cron import Cron, parse_cron
from scheduler_service.timing.zones import DAWN, Zone, load_zone
from tests.conformance_data import Row


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
