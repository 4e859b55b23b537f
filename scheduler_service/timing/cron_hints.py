"""Suggestions for a cron expression that is refused (SPEC section 3)."""

import re
from collections.abc import Iterator

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.timing.cron_fields import MONTHS, WEEKDAYS
from scheduler_service.timing.cron_text import ZONE_IN_FRONT, read_expression
from scheduler_service.timing.durations import COMMA, advise_unit, parse_duration
from scheduler_service.timing.zones import zone_names

TEXT_MAX = 100
"""Longer texts get no suggestion: it is found by trying, and they are hardly written by hand."""

_QUARTZ_FIELDS = 6
_SPOKEN = re.compile(r"(?:every |rate\()?([0-9]+ [a-z]+)\)?", re.IGNORECASE)
_EVENTBRIDGE = re.compile(r"cron\((.*)\)", re.IGNORECASE)
# Jenkins's `H`, in the order in which they are replaced: a range with a step, a range, a step, alone.
_HASHES = (
    (re.compile(r"\bH\(([0-9]+-[0-9]+)\)(?=/)"), r"\1"),
    (re.compile(r"\bH\(([0-9]+)-[0-9]+\)"), r"\1"),
    (re.compile(r"\bH(?=/)"), "*"),
    (re.compile(r"\bH\b"), "0"),
)
_OPEN = frozenset({"*", "?"})
_FULL_NAME = re.compile(rf"\b({'|'.join((*MONTHS, *WEEKDAYS))})[A-Z]+\b", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![0-9A-Z/#])[0-7](?![0-9A-Z])", re.IGNORECASE)
_GIVEN = re.compile(r"[0-9A-Z]+(-[0-9A-Z]+)?", re.IGNORECASE)
_YEAR = re.compile(r"(19|20|21)[0-9]{2}")


def advise(text: str) -> str:
    """A tested suggestion for a text that `read_expression` refuses, or an empty text."""
    if len(text) > TEXT_MAX:
        return ""
    plain = ZONE_IN_FRONT.sub("", text).strip().strip("\"'`;")
    fields = plain.split()
    if ZONE_IN_FRONT.match(text):
        fields = _without_hashes(fields)
        return f"write {' '.join(fields)!r}" if _is_read(" ".join(fields)) else ""
    for candidate, reason in (*_of_others(plain, fields), *_as_duration(fields), *_rewritten(fields)):
        if candidate != text and _is_read(candidate):
            return f"{reason}: write {candidate!r}"
    spoken = _SPOKEN.fullmatch(" ".join(fields))
    return advise_unit(spoken[1]) if spoken else ""


def _of_others(plain: str, fields: list[str]) -> Iterator[tuple[str, str]]:
    """Amazon EventBridge has the minute first and the year last, in `cron(…)` or not; Jenkins has `H`."""
    wrapped = _EVENTBRIDGE.fullmatch(plain)
    inner = wrapped[1].split() if wrapped else fields
    if len(inner) == _QUARTZ_FIELDS and "?" in (inner[2], inner[4]):
        year = [] if inner[5] == "*" else inner[5:]
        yield " ".join(["0", *inner[:5], *year]), "here the second comes first, unlike in EventBridge"
    elif wrapped:
        yield " ".join(inner), "the fields stand alone"
    plain_fields = _without_hashes(fields)
    hashed = "'H' of Jenkins is no value here, jitterSeconds spreads jobs instead"
    yield " ".join(plain_fields), "the fields stand alone" if plain_fields == fields else hashed


def _without_hashes(fields: list[str]) -> list[str]:
    """The first value that Jenkins's `H` may stand for: 0 in minute, hour and day of week, else 1."""
    plain = []
    for at, field in enumerate(fields):
        for hashed, instead in _HASHES:
            field = hashed.sub("1" if instead == "0" and at in (2, 3) else instead, field)
        plain.append(field)
    return plain


def _as_duration(fields: list[str]) -> Iterator[tuple[str, str]]:
    """`@every 5m` and `5 m` are durations."""
    yield (
        "".join(fields[1:] if fields[:1] == ["@every"] else fields),
        "a duration stands alone, without blanks",
    )
    yield COMMA.sub(".", "".join(fields)), "decimals stand behind a point"


def _rewritten(fields: list[str]) -> Iterator[tuple[str, str]]:
    plain = " ".join(fields)
    if len(fields) > 1 and fields[-1] in zone_names():
        yield (
            " ".join(fields[:-1]),
            f"a time zone is given as timezone, not behind the fields: {fields[-1]!r}",
        )
    yield plain, "the expression stands alone, without quotes and semicolons"
    yield re.sub(r" *, *", ",", plain), "no blank stands beside a comma"
    yield _FULL_NAME.sub(r"\1", plain), "names have three letters"
    if len(fields) == _QUARTZ_FIELDS - 1:
        yield f"0 {plain}", "with '?' the second comes first"
    if len(fields) == _QUARTZ_FIELDS:
        yield from _without_second(fields)
    if len(fields) > _QUARTZ_FIELDS - 1:
        yield from _from_unix_weekdays(fields)
        yield from _joined(fields)


def _without_second(fields: list[str]) -> Iterator[tuple[str, str]]:
    """Six fields whose first one is meant as the minute."""
    # It must also be valid with a second in front: Unix allows any step, such as an hour of */90.
    quartz = " ".join(_with_question_mark(["0", *fields[:4], _named(fields[4])]))
    if fields[-1] in _OPEN and _is_read(quartz):
        yield " ".join(fields[:5]), "six fields begin with the second; without it"
    if _YEAR.fullmatch(fields[-1]):
        yield f"{quartz} {fields[-1]}", "with a year the second comes first"


def _from_unix_weekdays(fields: list[str]) -> Iterator[tuple[str, str]]:
    """Unix counts weekdays from Sunday, 0; Quartz from Sunday, 1: names mean the same in both."""
    named = [*fields[:5], _named(fields[5]), *fields[6:]]
    yield " ".join(_with_question_mark(named)), "in six fields Sunday is 1, not 0; names are never mistaken"


def _joined(fields: list[str]) -> list[tuple[str, str]]:
    """One field too many, because a comma is missing between two values, if only one place fits."""
    joined = [
        " ".join([*fields[:at], f"{fields[at]},{fields[at + 1]}", *fields[at + 2 :]])
        for at in range(len(fields) - 1)
        if _GIVEN.fullmatch(fields[at]) and _GIVEN.fullmatch(fields[at + 1])
    ]
    read = [candidate for candidate in joined if _is_read(candidate)]
    return [(read[0], "a comma is missing between two values")] if len(read) == 1 else []


def _named(week: str) -> str:
    return _NUMBER.sub(lambda found: WEEKDAYS[int(found.group()) % 7], week)


def _with_question_mark(fields: list[str]) -> list[str]:
    return [*fields[:3], "?" if fields[3] == "*" and fields[5] not in _OPEN else fields[3], *fields[4:]]


def _is_read(text: str) -> bool:
    for read in (read_expression, parse_duration):
        try:
            read(text)
        except ExpressionError:
            continue
        return True
    return False
