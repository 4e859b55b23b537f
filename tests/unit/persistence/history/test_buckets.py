"""Buckets of durations: none is left out, and what is told is wrong by an eighth at most."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.persistence.history.buckets import bucket_of, least_in, middle_of, percentile

DURATIONS = st.integers(0, 2**45)


@given(DURATIONS)
def test_a_duration_lies_in_its_bucket(milliseconds: int) -> None:
    """From its least one to that of the next one."""
    bucket = bucket_of(milliseconds)
    assert least_in(bucket) <= milliseconds < least_in(bucket + 1)


@given(DURATIONS)
def test_the_middle_is_wrong_by_an_eighth_at_most(milliseconds: int) -> None:
    """The error that docs/api.md states."""
    assert abs(middle_of(bucket_of(milliseconds)) - milliseconds) * 8 <= milliseconds


def test_the_buckets_are_these_for_ever() -> None:
    """They are on disk: whoever changes them changes what old days say."""
    begins = [least_in(bucket) for bucket in range(18)]
    assert begins == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40]
    assert (bucket_of(86_400_000), bucket_of(-5)) == (101, 0)


@given(st.lists(DURATIONS, min_size=1), st.integers(1, 100))
def test_a_percentile_is_the_nearest_rank_in_its_bucket(found: list[int], percent: int) -> None:
    """As one that is taken of the durations themselves, but for the width of a bucket."""
    exact = sorted(found)[-(-len(found) * percent // 100) - 1]
    told = percentile(Counter(map(bucket_of, found)), percent)
    assert told == middle_of(bucket_of(exact))


def test_of_nothing_there_is_no_percentile() -> None:
    """None, not a zero."""
    assert percentile({}, 50) is None
