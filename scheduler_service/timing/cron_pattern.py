"""The local times of a cron expression, by arithmetic on bit masks and without a zone."""

from datetime import date

import msgspec

from scheduler_service.domain.moments import month_length
from scheduler_service.timing.cron_fields import FIRST_YEAR, YEARS, Days

SECONDS_A_DAY = 86_400

_ORIGIN = date(FIRST_YEAR, 1, 1).toordinal()
_END = (date(FIRST_YEAR + YEARS, 1, 1).toordinal() - _ORIGIN) * SECONDS_A_DAY


class CronPattern(msgspec.Struct, frozen=True, gc=False):
    """The fields as masks: bit 0 is second, minute, hour 0, January and 1970.

    Local times are whole seconds since 1970, counted as if they were UTC.
    """

    seconds: int
    minutes: int
    hours: int
    months: int
    years: int
    days: Days

    def first(self, second: int) -> int | None:
        """The first local time at or after `second`; None: none before 2200."""
        if second >= _END:
            return None
        day, clock = divmod(max(second, 0), SECONDS_A_DAY)
        if self._has_day(day):
            found = self._clock_from(clock)
            if found is not None:
                return day * SECONDS_A_DAY + found
        following = self._day_after(day)
        return None if following is None else following * SECONDS_A_DAY + self._opening()

    def within(self, start: int, end: int) -> int | None:
        """The first local time from `start` on and before `end`, which are few days apart."""
        for day in range(start // SECONDS_A_DAY, (end - 1) // SECONDS_A_DAY + 1):
            midnight = day * SECONDS_A_DAY
            if 0 <= midnight < _END and self._has_day(day):
                found = self._clock_from(max(start - midnight, 0))
                if found is not None and midnight + found < end:
                    return midnight + found
        return None

    def last(self, second: int) -> int | None:
        """The last local time at or before `second`; None: none since 1970."""
        if second < 0:
            return None
        day, clock = divmod(min(second, _END - 1), SECONDS_A_DAY)
        if self._has_day(day):
            found = self._clock_until(clock)
            if found is not None:
                return day * SECONDS_A_DAY + found
        preceding = self._day_before(day)
        return None if preceding is None else preceding * SECONDS_A_DAY + self._closing()

    def _has_day(self, day: int) -> bool:
        found = date.fromordinal(day + _ORIGIN)
        return bool(self._days(found.year, found.month) >> (found.day - 1) & 1)

    def _days(self, year: int, month: int) -> int:
        """The firing days of a month as a mask, bit 0 the 1st; 0 where year or month does not fire."""
        if not (self.years >> (year - FIRST_YEAR) & 1 and self.months >> (month - 1) & 1):
            return 0
        # isoweekday counts from Monday 1 to Sunday 7; here Sunday is 0.
        return self.days.of_month(date(year, month, 1).isoweekday() % 7, month_length(year, month))

    def _day_after(self, day: int) -> int | None:
        start = date.fromordinal(day + _ORIGIN)
        rest = self._days(start.year, start.month) >> start.day
        if rest:
            return day + _lowest(rest) + 1
        year, months = start.year, self.months >> start.month << start.month
        while True:
            while months:
                month = _lowest(months) + 1
                months &= months - 1
                days = self._days(year, month)
                if days:
                    return date(year, month, 1).toordinal() - _ORIGIN + _lowest(days)
            rest = self.years >> (year + 1 - FIRST_YEAR)
            if not rest:
                return None
            year, months = year + 1 + _lowest(rest), self.months

    def _day_before(self, day: int) -> int | None:
        end = date.fromordinal(day + _ORIGIN)
        rest = self._days(end.year, end.month) & ((1 << (end.day - 1)) - 1)
        if rest:
            return day - end.day + _highest(rest) + 1
        year, months = end.year, self.months & ((1 << (end.month - 1)) - 1)
        while True:
            while months:
                month = _highest(months) + 1
                months ^= 1 << (month - 1)
                days = self._days(year, month)
                if days:
                    return date(year, month, 1).toordinal() - _ORIGIN + _highest(days)
            rest = self.years & ((1 << (year - FIRST_YEAR)) - 1)
            if not rest:
                return None
            year, months = FIRST_YEAR + _highest(rest), self.months

    def _clock_from(self, clock: int) -> int | None:
        """The first firing of a firing day at or after `clock` (second of the day)."""
        rest, second = divmod(clock, 60)
        hour, minute = divmod(rest, 60)
        if self.hours >> hour & 1:
            if self.minutes >> minute & 1:
                left = self.seconds >> second
                if left:
                    return clock + _lowest(left)
            left = self.minutes >> (minute + 1)
            if left:
                return hour * 3600 + (minute + 1 + _lowest(left)) * 60 + _lowest(self.seconds)
        left = self.hours >> (hour + 1)
        if left:
            return (hour + 1 + _lowest(left)) * 3600 + self._opening() % 3600
        return None

    def _clock_until(self, clock: int) -> int | None:
        """The last firing of a firing day at or before `clock`."""
        rest, second = divmod(clock, 60)
        hour, minute = divmod(rest, 60)
        if self.hours >> hour & 1:
            if self.minutes >> minute & 1:
                left = self.seconds & ((2 << second) - 1)
                if left:
                    return clock - second + _highest(left)
            left = self.minutes & ((1 << minute) - 1)
            if left:
                return hour * 3600 + _highest(left) * 60 + _highest(self.seconds)
        left = self.hours & ((1 << hour) - 1)
        if left:
            return _highest(left) * 3600 + self._closing() % 3600
        return None

    def _opening(self) -> int:
        return _lowest(self.hours) * 3600 + _lowest(self.minutes) * 60 + _lowest(self.seconds)

    def _closing(self) -> int:
        return _highest(self.hours) * 3600 + _highest(self.minutes) * 60 + _highest(self.seconds)


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _highest(mask: int) -> int:
    return mask.bit_length() - 1
