"""How long a retry waits: longer each time, up to a ceiling, with a jitter that is a stable hash."""

import hashlib
import math
from collections.abc import Callable, Iterator
from typing import TypeVar

from client_sdk.models.fields import JitterKind
from scheduler_service.domain.moments import DAY

WAIT_MAX = 36_525 * DAY
"""No wait is longer than a hundred years, whatever the rate: sums of moments stay small numbers."""


def wait(interval: int, rate: float, ceiling: int | None, n: int) -> int:
    """Milliseconds before retry `n` (from 1): `interval × rate^(n−1)`, at most `ceiling` (SPEC section 6).

    Never raises for `interval` ≥ 0 and `rate` ≥ 1, and never falls as `n` rises.
    """
    cap = WAIT_MAX if ceiling is None else min(ceiling, WAIT_MAX)
    if interval <= 0:
        return 0
    if interval >= cap or (n - 1) * math.log(rate) >= math.log(cap / interval):
        return cap
    return min(round(interval * rate ** (n - 1)), cap)


def no_jitter(seed: str, wait: int) -> int:
    """All of `wait`."""
    return wait


def full_jitter(seed: str, wait: int) -> int:
    """From 0 to all of `wait`, the same for the same seed."""
    return digest(seed) % (wait + 1) if wait > 0 else 0


JITTERS: dict[JitterKind, Callable[[str, int], int]] = {"none": no_jitter, "full": full_jitter}
"""(seed, wait in ms) → the wait with its jitter. A new kind is a word of `JitterKind` and a line here."""


def digest(seed: str) -> int:
    """A number of 64 bits that depends on `seed` alone, on every machine."""
    data = seed.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")


Pause = TypeVar("Pause", int, float)


def doubling_pauses(first: Pause, longest: Pause) -> Iterator[Pause]:
    """`first`, then twice the pause before, at most `longest`; without end. The unit is the caller's."""
    pause = first
    while True:
        yield pause
        pause = min(pause * 2, longest)
