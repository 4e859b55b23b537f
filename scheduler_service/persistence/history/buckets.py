"""Fixed buckets for durations in ms: their counts add up, over processes and days, and give percentiles.

Up to 8 ms each millisecond has a bucket; above, each power of two is divided into four. So a bucket is at
most a quarter as wide as where it begins, and a value that is told as the middle of its bucket is wrong by
an eighth at most.
"""

from collections.abc import Mapping

# The bucket of what has no duration: an execution that never started, or one that no timer planned.
NONE = -1


def bucket_of(milliseconds: int) -> int:
    """The bucket of a duration; the one of 0 also for less."""
    if milliseconds < 8:
        return max(milliseconds, 0)
    shift = milliseconds.bit_length() - 3
    return 4 * shift + (milliseconds >> shift)


# The buckets of the first milliseconds, which most durations are within: a call takes three times as long.
SHORT_MS = 8_192
SHORT = tuple(map(bucket_of, range(SHORT_MS)))


def least_in(bucket: int) -> int:
    """The shortest duration in a bucket, in ms."""
    if bucket < 8:
        return bucket
    shift = bucket // 4 - 1
    return (4 + bucket % 4) << shift


def middle_of(bucket: int) -> int:
    """What a duration in a bucket is told as, in ms: wrong by an eighth of it at most."""
    return (least_in(bucket) + least_in(bucket + 1) - 1) // 2


def percentile(counts: Mapping[int, int], percent: int) -> int | None:
    """The nearest rank among durations of which `counts` has the number by bucket; None: there are none."""
    rank = -(-sum(counts.values()) * percent // 100)
    for bucket in sorted(counts):
        rank -= counts[bucket]
        if rank <= 0:
            return middle_of(bucket)
    return None
