"""The days of a month on which a cron expression fires."""

import msgspec

from scheduler_service.timing.cron_fields import Field, Mark

SATURDAY = 6
_WHOLE_WEEK = (1 << 7) - 1
_EVERY_SEVENTH_DAY = sum(1 << (7 * week) for week in range(5))


class Days(msgspec.Struct, frozen=True, gc=False):
    """The two day fields together.

    `dates`: bit 0 is the 1st; `week`: bit 0 is Sunday. `either`: a day fires if one of the fields has it
    (Unix, both restricted), else if both have it.
    """

    dates: int
    week: int
    marks: tuple[Mark, ...]
    week_marks: tuple[Mark, ...]
    either: bool

    def of_month(self, first: int, length: int) -> int:
        """The firing days as a mask, bit 0 the 1st, of a month that begins on weekday `first` (0: Sunday)."""
        dates = self.dates
        for mark in self.marks:
            dates |= _marked(mark, first, length)
        week = (((self.week | self.week << 7) >> first) & _WHOLE_WEEK) * _EVERY_SEVENTH_DAY
        for mark in self.week_marks:
            week |= _marked(mark, first, length)
        return (dates | week if self.either else dates & week) & ((1 << length) - 1)


def combine_days(dates: Field, week: Field, *, either: bool) -> Days:
    """The days of a day-of-month and a day-of-week field; `either` applies if both restrict."""
    return Days(
        dates=dates.mask,
        week=week.mask,
        marks=dates.marks,
        week_marks=week.marks,
        either=either and not dates.open and not week.open,
    )


def _marked(mark: Mark, first: int, length: int) -> int:
    match mark.kind:
        case "last":
            day = length - mark.value
        case "weekday":
            day = _nearest_weekday(mark.value, first, length)
        case "last_weekday":
            day = _nearest_weekday(length - mark.value, first, length)
        case "nth":
            day = 1 + (mark.value - first) % 7 + 7 * (mark.nth - 1)
        case _:  # final
            day = length - (first + length - 1 - mark.value) % 7
    return 1 << (day - 1) if 1 <= day <= length else 0


def _nearest_weekday(day: int, first: int, length: int) -> int:
    """The working day nearest to `day` in the same month; 0: the month has no such day."""
    if not 1 <= day <= length:
        return 0
    weekday = (first + day - 1) % 7
    if weekday == SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day
