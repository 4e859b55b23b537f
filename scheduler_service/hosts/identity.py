"""What a new life of a job gets from its host: an identity, and the key of its feedback tokens."""

import os
import time
from collections.abc import Callable

KEY_BYTES = 32
RANDOM_BYTES = 10
# Asking the system for chance lets go of the interpreter; so much is asked for at once.
IDENTITIES_AT_ONCE = 128

NewIdentity = Callable[[], tuple[str, bytes]]


class IdentitySource:
    """Makes uids (32 hex digits) that no other life has, and random keys (SPEC section 5).

    Uids begin with the moment: what is kept of lives that begin together lies together in every index.
    """

    def __init__(self, *, now: Callable[[], int] = time.time_ns) -> None:
        self._now = now
        self._chance: list[bytes] = []
        self._moment = -1
        self._prefix = ""

    def __call__(self) -> tuple[str, bytes]:
        """A uid and a key."""
        if not self._chance:
            self._chance = _draw(IDENTITIES_AT_ONCE)
        drawn = self._chance.pop()
        moment = self._now() // 1_000_000
        if moment != self._moment:
            self._moment, self._prefix = moment, f"{moment:012x}"
        return self._prefix + drawn[:RANDOM_BYTES].hex(), drawn[RANDOM_BYTES:]


def _draw(count: int) -> list[bytes]:
    size = RANDOM_BYTES + KEY_BYTES
    drawn = os.urandom(count * size)
    return [drawn[at : at + size] for at in range(0, len(drawn), size)]
