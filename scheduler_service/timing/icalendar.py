"""Days out of a text that people have: an iCalendar file (RFC 5545), or a list of dates, one a line.

What is read strictly is little: whole days, and yearly repetition of one date. All else of an event that
would change its days is refused by name, so that no holiday is missing unseen.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import date
from itertools import islice

import msgspec

from scheduler_service.domain.errors import ExpressionError, Problem
from scheduler_service.timing.calendar_days import FREE, LAST_DAY, MOST_DAYS, WORK, day_of, read_span

ICALENDAR, DATES = "icalendar", "dates"
EARLIEST = 1900
"""Events that repeat may have begun so early; other days are those that a calendar knows."""
MOST_EVENTS = 5_000
"""So many events a file may have: half a second of work."""
MOST_PROBLEMS = 20
"""So many faults of a text are named."""
APPLE_KINDS = {"WORK-HOLIDAY": FREE, "ALTERNATE-WORKDAY": WORK}
"""`X-APPLE-SPECIAL-DAY`, which tells days off and make-up days from days that have only a name."""
_REFUSED = ("RDATE", "EXRULE", "RECURRENCE-ID")
_PARAMETER = re.compile(r';([A-Za-z0-9-]+)=("[^"]*"|[^";:,]*)(?:,(?:"[^"]*"|[^";:,]*))*')
_NAME = re.compile(r"[A-Za-z0-9-]+")
_WHEN = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})(?:T([0-9]{6})Z?)?")
_LENGTH = re.compile(r"P(?:([0-9]{1,3})W|([0-9]{1,3})D)")


class ReadDays(msgspec.Struct, frozen=True):
    """The days of a text by kind (days since 1970), and the names of the events that are no such days."""

    format: str
    free: frozenset[int]
    work: frozenset[int]
    left_out: tuple[str, ...] = ()


class _Property(msgspec.Struct, frozen=True):
    line: int
    value: str


def read_days(text: str, kind: str, years: range, problems: list[Problem]) -> ReadDays:
    """The days of a text, all of them of this kind, `FREE` or `WORK`, where it does not say which.

    Events that repeat are read for `years`. What is wrong joins `problems`, each with its line.
    """
    text = text.removeprefix("\ufeff")
    if text.lstrip()[:15].upper() == "BEGIN:VCALENDAR":
        return _read_events(text, kind, years, problems)
    days: set[int] = set()
    for number, line in enumerate(text.splitlines(), 1):
        written = re.split(r"[\s,;#]", line.strip(), maxsplit=1)[0]
        if not written:
            continue
        try:
            span = read_span(written)
        except ExpressionError as error:
            _note(problems, number, error.message)
        else:
            days.update(range(span.first, span.last + 1))
    return _sort(DATES, {kind: days})


def _read_events(text: str, kind: str, years: range, problems: list[Problem]) -> ReadDays:
    listed = list(islice(_list_events(text, problems), MOST_EVENTS + 1))
    if len(listed) > MOST_EVENTS:
        _note(problems, listed[-1]["BEGIN"].line, f"it has more than {MOST_EVENTS} events; split it")
        return _sort(ICALENDAR, {})
    events = [one for one in listed if _value(one, "STATUS") != "CANCELLED"]
    is_marked = any(_value(one, "X-APPLE-SPECIAL-DAY") in APPLE_KINDS for one in events)
    days: dict[str, set[int]] = {FREE: set(), WORK: set()}
    left_out: dict[str, None] = {}
    for event in events:
        own = APPLE_KINDS.get(_value(event, "X-APPLE-SPECIAL-DAY")) if is_marked else kind
        if own is None:
            left_out[_name(event)] = None
            continue
        try:
            days[own].update(_days_of(event, years))
        except ExpressionError as error:
            line = next(iter(event.values())).line
            _note(problems, line, f"the event {_name(event)!r}: {error.message}")
    return _sort(ICALENDAR, days, tuple(left_out))


def _sort(form: str, days: Mapping[str, set[int]], left_out: tuple[str, ...] = ()) -> ReadDays:
    """Days of both kinds are working days: make-up days win over holidays."""
    work = frozenset(days.get(WORK, ()))
    return ReadDays(form, frozenset(days.get(FREE, ())) - work, work, left_out)


def _list_events(text: str, problems: list[Problem]) -> Iterator[dict[str, _Property]]:
    """The properties of each VEVENT, those of components within it left out."""
    within: list[str] = []
    event: dict[str, _Property] = {}
    for number, line in _unfold(text):
        name, value = _split(line)
        if not name:
            _note(problems, number, f"{line[:80]!r} is no line of an iCalendar file")
        elif name == "BEGIN":
            within.append(value.upper())
            if value.upper() == "VEVENT":
                event = {"BEGIN": _Property(number, "")}
        elif name == "END":
            if not within or within.pop() != value.upper():
                _note(problems, number, f"END:{value[:80]} ends nothing that has begun")
                return
            if value.upper() == "VEVENT":
                yield event
        elif within and within[-1] == "VEVENT":
            known = event.get(name)
            is_list = known is not None and name == "EXDATE"
            event[name] = _Property(number, f"{known.value},{value}" if known and is_list else value)
    if within:
        _note(problems, text.count("\n") + 1, f"the text ends within {within[-1][:80]}; it is not whole")


def _unfold(text: str) -> Iterator[tuple[int, str]]:
    """Each line with its number; a line that begins with a blank goes on with the one before."""
    whole, begun = "", 0
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        if line[:1] in {" ", "\t"} and whole:
            whole += line[1:]
            continue
        if whole:
            yield begun, whole
        whole, begun = line.rstrip(), number
    if whole:
        yield begun, whole


def _split(line: str) -> tuple[str, str]:
    """The name of a property, in capitals, and its value; an empty name: it is none."""
    name = _NAME.match(line)
    if name is None:
        return "", ""
    place = name.end()
    while (parameter := _PARAMETER.match(line, place)) is not None:
        place = parameter.end()
    return (name[0].upper(), line[place + 1 :].strip()) if line[place : place + 1] == ":" else ("", "")


def _days_of(event: Mapping[str, _Property], years: range) -> Iterator[int]:
    """Raises ExpressionError: it has no whole days, or repeats in another way than once a year."""
    for name in _REFUSED:
        if name in event:
            raise ExpressionError(f"{name} is not read; give its days as a list of dates")
    if "DTSTART" not in event:
        raise ExpressionError("it has no DTSTART")
    first = _read_day(event["DTSTART"].value)
    length = _length(event, first)
    starts = [first]
    if "RRULE" in event:
        left_out = {_read_day(one) for one in filter(None, _value(event, "EXDATE").split(","))}
        starts = [one for one in _repeat(event["RRULE"].value, first, years) if one not in left_out]
    elif "EXDATE" in event:
        raise ExpressionError("it has EXDATE without RRULE")
    for start in starts:
        last = day_of(start) + length - 1
        if day_of(start) < 0 or last > LAST_DAY:
            raise ExpressionError(f"{start} is not within 1970 and 2199")
        yield from range(day_of(start), last + 1)


def _length(event: Mapping[str, _Property], first: date) -> int:
    if "DTEND" in event:
        length = (_read_day(event["DTEND"].value) - first).days or 1  # some write the day itself
    elif "DURATION" in event:
        found = _LENGTH.fullmatch(event["DURATION"].value)
        if found is None:
            raise ExpressionError(f"its DURATION {event['DURATION'].value[:80]!r} is not of whole days")
        length = int(found[1]) * 7 if found[1] else int(found[2])
    else:
        length = 1
    if length < 1:
        raise ExpressionError("it ends before it begins, or has no day")
    if length > MOST_DAYS:
        raise ExpressionError(f"it has more than {MOST_DAYS} days")
    return length


def _read_day(text: str) -> date:
    """A day, also one that is written as its midnight."""
    found = _WHEN.fullmatch(text)
    if found is None:
        raise ExpressionError(f"{text[:80]!r} is no day; a day is written as 20261001")
    if found[4] not in (None, "000000"):
        raise ExpressionError(f"{text!r} is a time of day; only whole days are read")
    try:
        day = date(int(found[1]), int(found[2]), int(found[3]))
    except ValueError:
        raise ExpressionError(f"{text!r} is not in the calendar") from None
    if day.year < EARLIEST:
        raise ExpressionError(f"{text!r} is before {EARLIEST}")
    return day


def _repeat(rule: str, first: date, years: range) -> Iterator[date]:
    """The same date each year, the first one included."""
    parts = dict(one.upper().partition("=")[::2] for one in rule.split(";") if one)
    for name, wanted in (("BYMONTH", first.month), ("BYMONTHDAY", first.day)):
        if parts.get(name) == str(wanted):
            del parts[name]
    parts.pop("WKST", None)
    if parts.pop("FREQ", "") != "YEARLY" or parts.keys() - {"COUNT", "UNTIL", "INTERVAL"}:
        remedy = "only the same date each year is; give its days as a list of dates"
        raise ExpressionError(f"its RRULE {rule[:80]!r} is not read: {remedy}")
    step, left = _read_count(parts, "INTERVAL", 1), _read_count(parts, "COUNT", len(years) + 1_000)
    until = _read_day(re.sub(r"T[0-9]{6}Z?", "", parts["UNTIL"])) if "UNTIL" in parts else date.max
    for year in range(first.year, min(years.stop, until.year + 1), step):
        if (first.month, first.day) == (2, 29) and (year % 4 or (year % 100 == 0 and year % 400)):
            continue  # a date that is not there is none (RFC 5545, 3.3.10)
        found = first.replace(year=year)
        if found > until or left == 0:
            return
        left -= 1
        if year in years or (found == first and day_of(found) >= 0):
            yield found


def _read_count(parts: Mapping[str, str], name: str, default: int) -> int:
    given = parts.get(name, str(default))
    if not re.fullmatch(r"[1-9][0-9]{0,3}", given):
        raise ExpressionError(f"{name} of its RRULE is {given[:80]!r}; give a number from 1 to 9999")
    return int(given)


def _value(event: Mapping[str, _Property], name: str) -> str:
    return event[name].value.upper() if name in event else ""


def _name(event: Mapping[str, _Property]) -> str:
    return event["SUMMARY"].value[:80] if "SUMMARY" in event else "without a name"


def _note(problems: list[Problem], line: int, message: str) -> None:
    if len(problems) < MOST_PROBLEMS:
        problems.append(Problem("/text", "invalid", f"line {line}: {message}"))
