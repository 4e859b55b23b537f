"""When a cron expression fires in a zone, with its clock changes (SPEC section 3)."""

from collections.abc import Iterator

import msgspec

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.domain.moments import SECOND
from scheduler_service.timing.cron_hints import advise
from scheduler_service.timing.cron_pattern import CronPattern
from scheduler_service.timing.cron_text import Dialect, Reading, read_expression
from scheduler_service.timing.zones import Zone


class LastFound:
    """The last result of a search: `(zone, after, found)`, with no other firing between the two moments.

    Jobs that share a timer repeat the same search. It does not count when two values are compared.
    """

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: tuple[Zone, int, int] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LastFound)

    def __hash__(self) -> int:
        return 0


class Cron(msgspec.Struct, frozen=True, gc=False):
    """A parsed cron expression; moments are ms since the epoch, local years 1970 to 2199.

    `normal_form` parses to an equal value. All local times that a gap skips fire together, at the first
    instant after it. A local time that occurs twice fires at its first occurrence, of a `recurring`
    expression at both.
    """

    dialect: Dialect
    normal_form: str
    pattern: CronPattern
    recurring: bool
    last_found: LastFound = msgspec.field(default_factory=LastFound)

    def next(self, after: int, zone: Zone) -> int | None:
        """The first firing strictly later than `after`, or None."""
        known = self.last_found.known
        if known is not None and known[0] is zone and known[1] <= after < known[2]:
            return known[2]
        found = self._search(after, zone)
        if found is not None:
            self.last_found.known = (zone, after, found)
        return found

    def previous(self, before: int, zone: Zone) -> int | None:
        """The last firing since 1970 strictly earlier than `before`, or None."""
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

    def times_at(self, moment: int, zone: Zone) -> Iterator[int]:
        """The local times (ms) for which a firing at `moment` stands: its own, and skipped ones."""
        local, skipped = zone.to_local(moment), zone.skipped(moment)
        second, end = (skipped.start if skipped else local) // SECOND, local // SECOND + 1
        while (found := self.pattern.within(second, end)) is not None:
            yield found * SECOND
            second = found + 1

    def _search(self, after: int, zone: Zone) -> int | None:
        index = zone.stretch(after)
        local = (after + zone.offsets[index]) // SECOND + 1
        # What does not recur has fired in the first pass of a repeated hour.
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

    Raises ExpressionError that names the field, the value and the remedy; its code is `never_fires` if no
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
