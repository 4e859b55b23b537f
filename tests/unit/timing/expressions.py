"""Cron expressions that are valid, field by field, for tests of what is said of them."""

from hypothesis import strategies as st

CLOCK = ["*", "*/1", "*/5", "1/2", "0", "2,4", "3-5", "1-6/2", "6-2", "2,3-5/2"]
DATES = ["*", "*/1", "*/5", "1/2", "1", "2,4", "3-5", "1-6/2", "2,3-5/2"]
MARKED_DATES = ["L", "L-2", "LW", "L-1W", "3W", "15W,LW"]
MONTHS = ["*", "*/5", "1/2", "1", "2,4", "JAN,JUN", "3-5", "1-6/2", "11-2", "2,3-5/2"]
WEEKDAYS = ["*", "*/2", "1", "2,4", "3-5", "1-6/2", "6-2", "MON-FRI", "SUN"]
MARKED_WEEKDAYS = ["L", "6L", "2#1", "MON#3", "1#1,3L"]
YEARS = ["*", "2030", "2030,2031", "2030-2035/2"]

_clock, _months = st.sampled_from(CLOCK), st.sampled_from(MONTHS)
_days = st.tuples(st.sampled_from(DATES + MARKED_DATES), _months, st.just("?")) | st.tuples(
    st.just("?"), _months, st.sampled_from(WEEKDAYS + MARKED_WEEKDAYS)
)


def unix_expressions() -> st.SearchStrategy[str]:
    """Five fields."""
    fields = st.tuples(_clock, _clock, st.sampled_from(DATES), _months, st.sampled_from(WEEKDAYS))
    return fields.map(" ".join)


def quartz_expressions() -> st.SearchStrategy[str]:
    """Six or seven fields, one of the days open; days may depend on the month."""
    years = st.just(()) | st.sampled_from(YEARS).map(lambda year: (year,))
    fields = st.tuples(st.tuples(_clock, _clock, _clock), _days, years)
    return fields.map(lambda parts: " ".join((*parts[0], *parts[1], *parts[2])))
