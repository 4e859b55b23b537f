"""The routing policies: pure functions that choose among instances (SPEC section 13).

Candidates are online, not draining, have the wanted tags and have room. They come in order of their ids, and
random choices derive from a seed, so that equal arguments give equal choices.
"""

import hashlib
from collections.abc import Callable, Sequence

import msgspec

from scheduler_service.domain.step_parts import BROADCAST, SHARD

RANDOM, ROUND_ROBIN, LEAST_BUSY, HASH, FAILOVER = "random", "round_robin", "least_busy", "hash", "failover"


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """An instance that may be chosen; `busy` is its known load, `vouched` as in `Chosen`."""

    instance: str
    address: str
    tags: tuple[str, ...] = ()
    capacity: int | None = None
    busy: float = 0.0
    vouched: bool | None = None

    @property
    def has_room(self) -> bool:
        """Whether it may get another part."""
        return self.capacity is None or self.busy < self.capacity


class Question(msgspec.Struct, frozen=True, gc=False):
    """The inputs of a policy beside the instances.

    `key` is what `hash` maps to an instance, `seed` the source of random choices, `last` the instance that
    `round_robin` chose last.
    """

    key: str = ""
    seed: str = ""
    last: str = ""


def narrow(candidates: Sequence[Candidate], tags: Sequence[str]) -> list[Candidate]:
    """The candidates that have all of `tags`."""
    wanted = set(tags)
    return [one for one in candidates if wanted.issubset(one.tags)]


def choose(route: str, candidates: Sequence[Candidate], question: Question) -> list[Candidate]:
    """The candidates that get the step: one, or all if the policy spreads; none if there are none."""
    if not candidates:
        return []
    if route in (BROADCAST, SHARD):
        return list(candidates)
    return [POLICIES[route](candidates, question)]


def choose_random(candidates: Sequence[Candidate], question: Question) -> Candidate:
    """Any candidate, all equally likely."""
    return candidates[_number(question.seed) % len(candidates)]


def choose_round_robin(candidates: Sequence[Candidate], question: Question) -> Candidate:
    """The one after the last; arrivals and departures do not change the order of the others."""
    return next((one for one in candidates if one.instance > question.last), candidates[0])


def choose_least_busy(candidates: Sequence[Candidate], question: Question) -> Candidate:
    """The one with the lowest load; among equals any of them."""
    least = min(one.busy for one in candidates)
    return choose_random([one for one in candidates if one.busy == least], question)


def choose_hash(candidates: Sequence[Candidate], question: Question) -> Candidate:
    """The same one for the same key while it is a candidate; if one leaves, only its keys move.

    Rendezvous hashing: the instance with the highest hash for the key is chosen.
    """
    return max(candidates, key=lambda one: (_number(f"{question.key}\n{one.instance}"), one.instance))


def choose_failover(candidates: Sequence[Candidate], question: Question) -> Candidate:
    """The first in order of ids; a later one only while those before it cannot be chosen."""
    del question
    return candidates[0]


def _number(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


POLICIES: dict[str, Callable[[Sequence[Candidate], Question], Candidate]] = {
    RANDOM: choose_random,
    ROUND_ROBIN: choose_round_robin,
    LEAST_BUSY: choose_least_busy,
    HASH: choose_hash,
    FAILOVER: choose_failover,
}
