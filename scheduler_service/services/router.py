"""Finds instances for steps, and lets calls through as instances and rate limits have room (SPEC 13)."""

from collections.abc import Callable
from typing import Literal, Protocol

import msgspec

from scheduler_service.domain.effects import CallPart, ResolveInstances
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.parts import SPREAD, Chosen
from scheduler_service.domain.services import RateLimit
from scheduler_service.domain.wire import Token
from scheduler_service.services.in_flight import InFlight
from scheduler_service.services.instances import Instance
from scheduler_service.services.rate_window import RateWindow
from scheduler_service.services.routing import LEAST_BUSY, RANDOM, Candidate, Question, choose, narrow
from scheduler_service.services.wait_queues import Key, PausingClock, WaitQueue, WaitQueues

AVOIDED = 10 * SECOND


class Terms(msgspec.Struct, frozen=True):
    """What a service says of its calls: routing where the step says nothing, and its rate limit.

    `fixed` are the addresses that settings give it: each is an instance, and no other one counts, so that
    whoever may register cannot draw its calls elsewhere. `address` is asked where no instance takes work.
    `awaits_instances`: the scheduler has just started, and some of those that live have not said so yet.
    """

    route: str = RANDOM
    tags: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    address: str | None = None
    rate: RateLimit | None = None
    awaits_instances: bool = False


class Roster(Protocol):
    """Knows who runs."""

    def online(self, tenant: str, service: str, now: int) -> tuple[Instance, ...]:
        """The instances that were heard of in time, in order of their ids."""

    def mark_draining(self, tenant: str, service: str, instance_id: str) -> bool:
        """It takes no more work. False where it is not known."""


class MemoryRouter:
    """Implements `ports.Router` in the memory of one process.

    `terms` says what is known of a service by tenant and name. Who waits is let through in order: searches
    with the same tags, and calls to the same instance.
    """

    def __init__(self, *, roster: Roster, terms: Callable[[str, str], Terms], clock: PausingClock) -> None:
        self._roster = roster
        self._terms = terms
        self._clock = clock
        self._occupancy = InFlight()
        self._windows: dict[Key, RateWindow] = {}
        self._last: dict[tuple[str, str, tuple[str, ...]], str] = {}
        self._avoided: dict[tuple[str, str, str], int] = {}
        self._lines = WaitQueues(clock=clock)

    async def resolve(self, search: ResolveInstances) -> tuple[tuple[Chosen, ...], str]:
        """Who gets the step, and by which policy; waits while all that it could get are full, and after a
        start for those that are not back yet.

        One that is chosen alone has its place held for `search.token` until the call takes it over.
        """
        route = search.route or self._terms(search.tenant, search.service).route
        key = (search.tenant, search.service)
        found = await self._lines.pass_through((*key, *search.tags), key, lambda: self._look(search, route))
        return found, route

    def take_place(self, call: CallPart) -> bool:
        """Whether the call may be made now; then it holds its place until `leave`. Nobody is overtaken."""
        place = (call.tenant, call.service, call.instance)
        if not self._lines.is_empty(_line_of(call)) and not self._occupancy.held_for(call.token, place):
            return False
        return self._take_place(call) is not None

    async def enter(self, call: CallPart) -> None:
        """Returns when the instance and the service's rate limit have room for the call."""
        key = (call.tenant, call.service)
        await self._lines.pass_through(_line_of(call), key, lambda: self._take_place(call))

    def leave(self, token: Token) -> None:
        """A call, or what a search held for one, is over. Does nothing where nothing is held."""
        place = self._occupancy.leave(token)
        if place is not None:
            self._lines.stir(place[:2])

    def mark_draining(self, tenant: str, service: str, instance: str) -> None:
        """An instance answered that it takes no more work; one without heartbeats is avoided for 10 s."""
        if not self._roster.mark_draining(tenant, service, instance):
            self._avoided[tenant, service, instance] = self._clock.now().steady + AVOIDED

    def _look(self, search: ResolveInstances, route: str) -> tuple[Chosen, ...] | None:
        """Who gets the step, nobody where nobody is there; None: all are full, or not back after a start."""
        terms = self._terms(search.tenant, search.service)
        there = [
            one
            for one in self._candidates(search.tenant, search.service, terms)
            if one.instance not in search.excluded
        ]
        wanted = narrow(there, search.tags or terms.tags)
        if not wanted and terms.awaits_instances:
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
            self._occupancy.hold(search.token, place, self._clock.now().steady)
        return tuple(Chosen(one.instance, one.address) for one in chosen)

    def _candidates(self, tenant: str, service: str, terms: Terms) -> list[Candidate]:
        """Everybody that may get work of this service, in order of their ids."""
        now = self._clock.now().steady
        if terms.fixed:
            return [one for base in sorted(terms.fixed) for one in self._at(tenant, service, base, now)]
        online = self._roster.online(tenant, service, now)
        found = [self._describe(one) for one in online if one.address and not one.draining]
        if not found and terms.address is not None:
            return self._at(tenant, service, terms.address, now)
        return found

    def _at(self, tenant: str, service: str, base: str, now: int) -> list[Candidate]:
        """An address that counts as an instance, unless it was draining a moment ago."""
        if self._avoided.get((tenant, service, base), now) > now:
            return []
        return [Candidate(base, base, (), None, self._occupancy.busy((tenant, service, base), 0, now))]

    def _describe(self, one: Instance) -> Candidate:
        place = (one.tenant, one.service, one.instance_id)
        busy = self._occupancy.busy(place, one.load, one.seen)
        return Candidate(one.instance_id, one.address, one.tags, one.capacity, busy)

    def _take_place(self, call: CallPart) -> Literal[True] | None:
        occupancy = self._occupancy
        if not occupancy.holds(call.token):
            place = (call.tenant, call.service, call.instance)
            held = occupancy.held_for(call.token, place)
            if held is not None:
                occupancy.pass_on(held, call.token)
            elif self._has_room(call):
                occupancy.hold(call.token, place, self._clock.now().steady)
            else:
                return None
        return True if self._take_rate(call) else None

    def _has_room(self, call: CallPart) -> bool:
        """One that has gone offline meanwhile is called all the same: the call says so soon enough."""
        now = self._clock.now().steady
        for one in self._roster.online(call.tenant, call.service, now):
            if one.instance_id == call.instance:
                return self._describe(one).has_room
        return True

    def _take_rate(self, call: CallPart) -> bool:
        rate = self._terms(call.tenant, call.service).rate
        if rate is None:
            return True
        now = self._clock.now().steady
        window = self._windows.setdefault((call.tenant, call.service), RateWindow())
        if window.wait(rate, now) > 0:
            return False
        window.take(now)
        return True


def _line_of(call: CallPart) -> WaitQueue:
    return ("call", call.tenant, call.service, call.instance)
