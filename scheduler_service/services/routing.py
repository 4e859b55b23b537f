"""Which instances get a step: every policy is a pure function of what is known (SPEC section 13).

An instance is one that may be chosen at all: online, not draining, with the wanted tags and with room. All
of them come in the order of their ids, and chance is drawn from a seed, so that equal arguments always give
equal choices.
"""

import hashlib
from collections.abc import Callable, Sequence

import msgspec

from scheduler_service.domain.parts import BROADCAST, SHARD

RANDOM, ROUND_ROBIN, LEAST_BUSY, HASH, FAILOVER = "random", "round_robin", "least_busy", "hash", "failover"


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """An instance that may be chosen; `busy` is how much it has to do, as far as anybody knows."""

    instance: str
    address: str
    tags: tuple[str, ...] = ()
    capacity: int | None = None
    busy: float = 0.0

    @property
    def has_room(self) -> bool:
        """Whether it may get one more piece of work."""
        return self.capacity is None or self.busy < self.capacity


class Question(msgspec.Struct, frozen=True, gc=False):
    """What a policy may look at beside the instances.

    `key` is what `hash` sticks to, `seed` what chance is drawn from, `last` who came last in `round_robin`.
    """

    key: str = ""
    seed: str = ""
    last: str = ""


def narrow(candidates: Sequence[Candidate], tags: Sequence[str]) -> list[Candidate]:
    """Those that have all of `tags`."""
    wanted = set(tags)
    return [one for one in candidates if wanted.issubset(one.tags)]


def choose(route: str, candidates: Sequence[Candidate], question: Question) -> list[Candidate]:
    """Those of `candidates` that get the step: one, or all where the policy spreads; none of none."""
    if not candidates:
        return []
    if route in (BROADCAST, SHARD):
        return list(candidates)
    return [POLICIES[route](candidates, question)]


def choose_random(candidates: Sequence[Candidate], question: Question) -> Candidate:
    """Any of them, each as likely as the others."""
    return candidates[_number(question.seed) % len(candidates)]


def choose_round_robin(candidates: Sequence[Candidate], question: Question) -> Candidate:
    """The one after the last one; who comes or goes does not change the order of the others."""
    return next((one for one in candidates if one.instance > question.last), candidates[0])


def choose_least_busy(candidates: Sequence[Candidate], question: Question) -> Candidate:
    """The one with the least to do; among equals any of them."""
    least = min(one.busy for one in candidates)
    return choose_random([one for one in candidates if one.busy == least], question)


def choose_hash(candidates: Sequence[Candidate], question: Question) -> Candidate:
    """The same one for the same key, as long as it is there; when one leaves, only its keys move.

    Rendezvous hashing: each instance draws a number for the key, and the highest one wins.
    """
    return max(candidates, key=lambda one: (_number(f"{question.key}\n{one.instance}"), one.instance))


def choose_failover(candidates: Sequence[Candidate], question: Question) -> Candidate:
    """The first one in the order of ids; the next one only while those before it cannot be chosen."""
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
