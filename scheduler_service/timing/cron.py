"""Cron as a value: when an expression fires in a zone, also where clocks change (SPEC section 3)."""

import msgspec

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.domain.moments import SECOND
from scheduler_service.timing.cron_hints import advise
from scheduler_service.timing.cron_pattern import Pattern
from scheduler_service.timing.cron_text import Dialect, Reading, read_expression
from scheduler_service.timing.zones import Zone


class Latest:
    """The firing that was found last: `(zone, after, found)`, no other one between the two moments.

    Jobs that share a timer ask for the same one over and over. It makes no difference between two values.
    """

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: tuple[Zone, int, int] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Latest)

    def __hash__(self) -> int:
        return 0


class Cron(msgspec.Struct, frozen=True, gc=False):
    """A cron expression that was read; moments are ms since the epoch, local years 1970 to 2199.

    `normal_form` parses back to an equal value. A skipped local time fires at the first instant after the
    gap, together with all that the gap skips. A local time that occurs twice fires at its first occurrence;
    `recurring` expressions fire in both passes.
    """

    dialect: Dialect
    normal_form: str
    pattern: Pattern
    recurring: bool
    latest: Latest = msgspec.field(default_factory=Latest)

    def next(self, after: int, zone: Zone) -> int | None:
        """The first firing strictly later than `after`; None: there is none any more."""
        known = self.latest.known
        if known is not None and known[0] is zone and known[1] <= after < known[2]:
            return known[2]
        found = self._search(after, zone)
        if found is not None:
            self.latest.known = (zone, after, found)
        return found

    def previous(self, before: int, zone: Zone) -> int | None:
        """The last firing strictly earlier than `before`; None: there was none since 1970."""
        index = zone.stretch(before - 1)
        local = (before - 1 + zone.offsets[index]) // SECOND
        found = self.pattern.last(local)
        while True:
            start, reached = zone.starts[index], zone.reached[index] // SECOND
            begin = (start + zone.offsets[index]) // SECOND
            if found is not None and found >= (begin if self.recurring else max(begin, reached)):
                return found * SECOND - zone.offsets[index]
            if found is not None and reached <= found < begin:
                return start
            if index == 0:
                return None
            index -= 1
            end = (start + zone.offsets[index]) // SECOND - 1
            if end > local:
                found = self.pattern.last(end)
            local = end

    def _search(self, after: int, zone: Zone) -> int | None:
        index = zone.stretch(after)
        local = (after + zone.offsets[index]) // SECOND + 1
        # In the second pass of a repeated hour what does not recur has fired already.
        found = self.pattern.first(local if self.recurring else max(local, zone.reached[index] // SECOND))
        while found is not None or self.recurring:
            moment = None if found is None else found * SECOND - zone.offsets[index]
            if index + 1 == len(zone.starts) or (moment is not None and moment < zone.starts[index + 1]):
                return moment
            index += 1
            start, reached = zone.starts[index], zone.reached[index] // SECOND
            begin = (start + zone.offsets[index]) // SECOND
            if begin < reached:
                repeated = self.pattern.within(begin, reached) if self.recurring else None
                found = found if repeated is None else repeated
            elif found is not None and found < begin:
                return start
        return None


def parse_cron(text: str) -> Cron:
    """Reads a Quartz expression (6 or 7 fields), a Unix one (5) or a macro.

    Raises ExpressionError that names the field, the value and the remedy; with code `never_fires` where no
    moment from 1970 to 2199 fits.
    """
    reading = _read(text)
    if reading.pattern.first(0) is None:
        raise ExpressionError(
            f"{reading.normal_form!r} has no moment from 1970 to 2199; check day-of-month, month and year",
            code="never_fires",
        )
    return Cron(
        dialect=reading.dialect,
        normal_form=reading.normal_form,
        pattern=reading.pattern,
        recurring=reading.recurring,
    )


def _read(text: str) -> Reading:
    try:
        return read_expression(text)
    except ExpressionError as error:
        advice = advise(text)
        if not advice:
            raise
        raise ExpressionError(error.message, code=error.code, column=error.column, advice=advice) from None
