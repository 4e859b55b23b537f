"""Chooses instances for steps, and admits calls as capacity and rate limits allow (SPEC section 13).

Each routing policy is a pure function. Its candidates are online, not draining, have the wanted tags and have
room. They come in order of their ids, and random choices derive from a seed, so that equal arguments give
equal choices.
"""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from scheduler_service.domain.effects import CallPart, ResolveInstances, WatchInstance
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.parts import BROADCAST, SHARD, SPREAD, Chosen
from scheduler_service.domain.services import Loss, RateLimit
from scheduler_service.domain.wire import Token
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.services.in_flight import InFlight
from scheduler_service.services.instances import Instance, Instances
from scheduler_service.services.losses import Losses
from scheduler_service.services.rate_window import RateWindow
from scheduler_service.services.wait_queues import Key, WaitQueue, WaitQueues

AVOID_MS = 10 * SECOND
RANDOM, ROUND_ROBIN, LEAST_BUSY, HASH, FAILOVER = "random", "round_robin", "least_busy", "hash", "failover"


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """An instance that may be chosen; `busy` is its known load."""

    instance: str
    address: str
    tags: tuple[str, ...] = ()
    capacity: int | None = None
    busy: float = 0.0

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


class Terms(msgspec.Struct, frozen=True):
    """How calls to a service are routed by default, and its rate limit.

    `fixed` are addresses from the settings: each counts as an instance, and no others do, so that a
    registration cannot divert calls. `address` is called when no instance takes work. `awaits_instances`: the
    scheduler has just started, and running instances may not have registered yet.
    """

    route: str = RANDOM
    tags: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    address: str | None = None
    rate: RateLimit | None = None
    awaits_instances: bool = False


class MemoryRouter:
    """Implements `ports.Router` in the memory of one process.

    `terms` returns the terms of a service by tenant and name; `losses` None: no instance is ever lost.
    Waiting searches with the same tags are admitted in order, and so are calls to the same instance.
    """

    def __init__(
        self,
        *,
        instances: Instances,
        terms: Callable[[str, str], Terms],
        clock: Timekeeper,
        losses: Losses | None = None,
    ) -> None:
        self._instances = instances
        self._terms = terms
        self._clock = clock
        self._losses = losses
        self._in_flight = InFlight()
        self._windows: dict[Key, RateWindow] = {}
        self._last: dict[tuple[str, str, tuple[str, ...]], str] = {}
        self._avoided: dict[tuple[str, str, str], int] = {}
        self._queues = WaitQueues(clock=clock)

    async def resolve(self, search: ResolveInstances) -> tuple[tuple[Chosen, ...], str]:
        """The instances for the step, and the policy. Waits while all that fit are full, and after a start
        while instances may not have registered yet.

        A single chosen instance holds a place for `search.token` until the call takes it over.
        """
        route = search.route or self._terms(search.tenant, search.service).route
        key = (search.tenant, search.service)
        found = await self._queues.pass_through((*key, *search.tags), key, lambda: self._look(search, route))
        return found, route

    def take_place(self, call: CallPart) -> bool:
        """Whether the call may be made now, ahead of no other; then it holds its place until `leave`."""
        place = (call.tenant, call.service, call.instance)
        if not self._queues.is_empty(_queue_of(call)) and not self._in_flight.held_for(call.token, place):
            return False
        return self._take_place(call) is not None

    async def enter(self, call: CallPart) -> None:
        """Returns when the instance's capacity and the service's rate limit admit the call."""
        key = (call.tenant, call.service)
        await self._queues.pass_through(_queue_of(call), key, lambda: self._take_place(call))

    def leave(self, token: Token) -> None:
        """Frees the place of a call or a search, if it holds one."""
        place = self._in_flight.leave(token)
        if place is not None:
            self._queues.retry(place[:2])

    async def wait_for_loss(self, watch: WatchInstance) -> Loss:
        """Returns when the instance is lost."""
        if self._losses is None:
            never: asyncio.Future[Loss] = asyncio.get_running_loop().create_future()
            return await never
        return await self._losses.wait_for(watch)

    def mark_draining(self, tenant: str, service: str, instance: str) -> None:
        """Notes that an instance answered "draining"; one without heartbeats is avoided for 10 s."""
        if not self._instances.mark_draining(tenant, service, instance):
            self._avoided[tenant, service, instance] = self._clock.now().steady + AVOID_MS

    def mark_refused(self, tenant: str, service: str, instance: str) -> None:
        """Notes that an instance refused a connection; an address without heartbeats is tried again."""
        self._instances.mark_refused(tenant, service, instance)

    def rate_of(self, tenant: str, service: str) -> tuple[RateLimit, RateWindow] | None:
        """The rate limit of a service with the calls that count for it; None: it has none."""
        limit = self._terms(tenant, service).rate
        return None if limit is None else (limit, self._windows.setdefault((tenant, service), RateWindow()))

    def _look(self, search: ResolveInstances, route: str) -> tuple[Chosen, ...] | None:
        """The instances for the step, () if there are none; None: all are full, or may be back soon."""
        terms = self._terms(search.tenant, search.service)
        candidates = [
            one
            for one in self._candidates(search.tenant, search.service, terms)
            if one.instance not in search.excluded
        ]
        wanted = narrow(candidates, search.tags or terms.tags)
        if not wanted and (terms.awaits_instances or self._may_come_back(search, terms)):
            return None
        if route in SPREAD and not search.single:
            return tuple(Chosen(one.instance, one.address) for one in wanted)
        free = [one for one in wanted if one.has_room]
        if wanted and not free:
            return None
        order = (search.tenant, search.service, search.tags)
        question = Question(search.key, search.seed, self._last.get(order, ""))
        chosen = choose(LEAST_BUSY if route in SPREAD else route, free, question)
        for one in chosen:
            self._last[order] = one.instance
            place = (search.tenant, search.service, one.instance)
            self._in_flight.hold(search.token, place, self._clock.now().steady)
        return tuple(Chosen(one.instance, one.address) for one in chosen)

    def _may_come_back(self, search: ResolveInstances, terms: Terms) -> bool:
        """Whether an instance fits that refuses connections: its next heartbeat, or its end, decides."""
        if terms.fixed:
            return False
        online = self._instances.online(search.tenant, search.service, self._clock.now().steady)
        refusing = [self._describe(one) for one in online if one.refuses and not one.draining]
        left = [one for one in refusing if one.instance not in search.excluded]
        return bool(narrow(left, search.tags or terms.tags))

    def _candidates(self, tenant: str, service: str, terms: Terms) -> list[Candidate]:
        """All instances that may get work of this service, in order of their ids."""
        now = self._clock.now().steady
        if terms.fixed:
            return [one for base in sorted(terms.fixed) for one in self._at(tenant, service, base, now)]
        online = self._instances.online(tenant, service, now)
        found = [
            self._describe(one) for one in online if one.address and not one.draining and not one.refuses
        ]
        if not found and terms.address is not None:
            return self._at(tenant, service, terms.address, now)
        return found

    def _at(self, tenant: str, service: str, base: str, now: int) -> list[Candidate]:
        """An address as an instance, unless it was draining a moment ago."""
        if self._avoided.get((tenant, service, base), now) > now:
            return []
        return [Candidate(base, base, (), None, self._in_flight.busy((tenant, service, base), 0, now))]

    def _describe(self, one: Instance) -> Candidate:
        place = (one.tenant, one.service, one.instance_id)
        busy = self._in_flight.busy(place, one.load, one.seen)
        return Candidate(one.instance_id, one.address, one.tags, one.capacity, busy)

    def _take_place(self, call: CallPart) -> Literal[True] | None:
        in_flight = self._in_flight
        if not in_flight.holds(call.token):
            place = (call.tenant, call.service, call.instance)
            held = in_flight.held_for(call.token, place)
            if held is not None:
                in_flight.pass_on(held, call.token)
            elif self._has_room(call):
                in_flight.hold(call.token, place, self._clock.now().steady)
            else:
                return None
        return True if self._take_rate(call) else None

    def _has_room(self, call: CallPart) -> bool:
        """An instance that went offline meanwhile is called anyway: the call soon fails if it is gone."""
        now = self._clock.now().steady
        for one in self._instances.online(call.tenant, call.service, now):
            if one.instance_id == call.instance:
                return self._describe(one).has_room
        return True

    def _take_rate(self, call: CallPart) -> bool:
        rate = self.rate_of(call.tenant, call.service)
        if rate is None:
            return True
        limit, window = rate
        now = self._clock.now().steady
        if window.wait(limit, now) > 0:
            return False
        window.take(now)
        return True


def _queue_of(call: CallPart) -> WaitQueue:
    return ("call", call.tenant, call.service, call.instance)
