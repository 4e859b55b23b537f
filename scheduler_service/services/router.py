"""Chooses instances for steps, and admits calls as capacity and rate limits allow (SPEC section 13)."""

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from typing import Literal, Protocol

import msgspec

from scheduler_service.domain.effects import CallPart, ResolveInstances, WatchInstance
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.registered_services import InstancePlace, Loss, RateLimit
from scheduler_service.domain.step_parts import SPREAD, Chosen
from scheduler_service.domain.wire import Token
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.services.instances import Instance, Instances
from scheduler_service.services.lost_instances import Losses
from scheduler_service.services.rate_windows import ProcessWindow, RateWindow
from scheduler_service.services.routing_policies import (
    LEAST_BUSY,
    RANDOM,
    Candidate,
    Question,
    choose,
    narrow,
)
from scheduler_service.services.waiters import Key, WaitQueues, Waits

AVOID_MS = 10 * SECOND
EXPECTING, HELD = "expecting", "held"
"""For what searches of a service wait: an instance, or the end of a pause."""


class Terms(msgspec.Struct, frozen=True):
    """How calls to a service are routed by default, and its rate limit.

    `fixed` are addresses from the settings: each counts as an instance, and no others do, so that a
    registration cannot divert calls. `address` is called when no instance takes work. `awaits_instances`: the
    scheduler has just started, and running instances may not have registered yet. `wait` (ms): how long a
    step waits where no instance takes work; 0: not at all. `sign`: the secret that signs calls; empty: none.
    `vouched`: whether `address` may be private, as in `Service`.
    """

    route: str = RANDOM
    tags: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    address: str | None = None
    rate: RateLimit | None = None
    awaits_instances: bool = False
    wait: int = 0
    sign: str = ""
    vouched: bool | None = None


class RouterAnswer(Enum):
    """What else a search or a call that waits comes to."""

    PAUSED = auto()


class OtherNodes(Protocol):
    """What the other nodes of a cluster know."""

    async def ask(self) -> None:
        """Returns when what had registered with any of them by now is known here. Raises nothing."""

    def calls_to(self, place: InstancePlace) -> int:
        """The calls from other nodes that an instance has to answer."""


class MemoryRouter:
    """Implements `ports.Router` in the memory of one process.

    `terms` returns the terms of a service by tenant and name; `losses` None: no instance is ever lost.
    `others` None: no other node knows instances or calls them. `windows` has what counts for the rate limit
    of a service, here or at all nodes; None: what is called here. `is_paused` says whether nothing may be
    called of a service; its changes come by `follow_pause`.
    Waiting searches with the same tags are admitted in order, and so are calls to the same instance.
    """

    def __init__(
        self,
        *,
        instances: Instances,
        terms: Callable[[str, str], Terms],
        clock: Timekeeper,
        losses: Losses | None = None,
        others: OtherNodes | None = None,
        windows: Callable[[str, str], ProcessWindow] | None = None,
        is_paused: Callable[[str, str], bool] = lambda *_: False,
    ) -> None:
        self._instances = instances
        self._terms = terms
        self._clock = clock
        self._losses = losses
        self._others = others
        self._is_paused = is_paused
        self._in_flight = InFlight()
        own: dict[Key, RateWindow] = {}
        self._window = windows or (lambda *key: own.setdefault(key, RateWindow()))
        self._last: dict[tuple[str, str, tuple[str, ...]], str] = {}
        self._avoided: dict[tuple[str, str, str], int] = {}
        self._queues = WaitQueues(clock=clock)
        self._waits = Waits(clock=clock)
        instances.subscribe(self._wake_expecting)

    async def resolve(self, search: ResolveInstances) -> tuple[tuple[Chosen, ...], str, int, bool]:
        """The instances for the step, and the policy. Waits while all that fit are full, and after a start
        while instances may not have registered yet.

        A single chosen instance holds a place for `search.token` until the call takes it over. Where none is
        chosen, the third value is how long a search that `waits` would have waited (ms), the last whether
        the service is paused. A search that is `held` waits for the end of the pause, in order.
        """
        route = search.route or self._terms(search.tenant, search.service).route
        key = (search.tenant, search.service)
        if search.held:
            await self._wait_out_pause(key)
        if search.waits:
            await self._expect(search)
        if self._others is not None and not self._instances.online(*key, self._clock.now().steady):
            await self._others.ask()
        found: tuple[Chosen, ...] | Literal[RouterAnswer.PAUSED] = await self._queues.pass_through(
            (*key, *search.tags), key, lambda: self._look(search, route)
        )
        if found is RouterAnswer.PAUSED:
            return (), route, 0, True
        wait = 0 if found or search.waits else self._terms(*key).wait
        return found, route, wait, False

    def take_place(self, call: CallPart) -> bool:
        """Whether the call may be made now, ahead of no other; then it holds its place until `leave`."""
        place = (call.tenant, call.service, call.instance)
        if not self._queues.is_empty(_queue_of(call)) and not self._in_flight.held_for(call.token, place):
            return False
        return self._take_place(call) is True

    async def enter(self, call: CallPart) -> bool | None:
        """Returns when the instance's capacity and the service's rate limit admit the call.

        False: the instance has left or drains. So it is with a call that is sent again after a crash, and
        with one that has waited. None: the service is paused.
        """
        key = (call.tenant, call.service)
        found: bool | Literal[RouterAnswer.PAUSED] = await self._queues.pass_through(
            _queue_of(call), key, lambda: self._take_place(call)
        )
        return None if found is RouterAnswer.PAUSED else found

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
        place = (tenant, service, instance)
        if not self._instances.mark_draining(*place) and self._instances.left_at(*place) is None:
            self._avoided[tenant, service, instance] = self._clock.now().steady + AVOID_MS

    def mark_refused(self, tenant: str, service: str, instance: str) -> None:
        """Notes that an instance refused a connection; an address without heartbeats is tried again."""
        self._instances.mark_refused(tenant, service, instance)

    def open_calls(self) -> list[tuple[InstancePlace, int]]:
        """The calls from this process that each instance has to answer."""
        return self._in_flight.counts()

    def rate_of(self, tenant: str, service: str) -> tuple[RateLimit, ProcessWindow] | None:
        """The rate limit of a service with the calls that count for it; None: it has none."""
        limit = self._terms(tenant, service).rate
        return None if limit is None else (limit, self._window(tenant, service))

    def retry(self, tenant: str, service: str) -> None:
        """The rate limit of a service allows calls again: those that wait look at once."""
        self._queues.retry((tenant, service))

    def follow_pause(self, tenant: str, service: str) -> None:
        """A pause of a service begins or ends: those that wait look at once, in their order."""
        self._wake_expecting(tenant, service, "")
        self._queues.retry((tenant, service))
        if not self._is_paused(tenant, service):
            self._waits.wake([(HELD, tenant, service)])

    async def _wait_out_pause(self, key: Key) -> None:
        while self._is_paused(*key):
            await self._waits.wait((HELD, *key))

    async def _expect(self, search: ResolveInstances) -> None:
        """Returns when an instance may take the step, or when the service's `wait` is over.

        Each registration at the service, and each return of an instance, is a look: nothing is polled.
        """
        key, start = (search.tenant, search.service), self._clock.now().steady
        while not self._is_paused(*key) and not self._fitting(search, terms := self._terms(*key)):
            left = start + terms.wait - self._clock.now().steady
            if left <= 0:
                return
            await self._waits.wait((EXPECTING, *key), most=left)

    def _wake_expecting(self, tenant: str, service: str, _: str) -> None:
        self._waits.wake([(EXPECTING, tenant, service)])

    def _fitting(self, search: ResolveInstances, terms: Terms) -> list[Candidate]:
        """Those that may take the step, full ones too."""
        candidates = [
            one
            for one in self._candidates(search.tenant, search.service, terms)
            if one.instance not in search.excluded and search.only in ("", one.instance)
        ]
        return narrow(candidates, search.tags or terms.tags)

    def _look(
        self, search: ResolveInstances, route: str
    ) -> tuple[Chosen, ...] | Literal[RouterAnswer.PAUSED] | None:
        """The instances for the step, () if there are none; None: all are full, or may be back soon."""
        if self._is_paused(search.tenant, search.service):
            return RouterAnswer.PAUSED
        terms = self._terms(search.tenant, search.service)
        wanted = self._fitting(search, terms)
        if not wanted and (terms.awaits_instances or self._may_come_back(search, terms)):
            return None
        if route in SPREAD and not search.single:
            return tuple(Chosen(one.instance, one.address, terms.sign, one.vouched) for one in wanted)
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
        return tuple(Chosen(one.instance, one.address, terms.sign, one.vouched) for one in chosen)

    def _may_come_back(self, search: ResolveInstances, terms: Terms) -> bool:
        """Whether an instance fits that refuses connections: its next heartbeat, or its end, decides."""
        if terms.fixed:
            return False
        online = self._instances.online(search.tenant, search.service, self._clock.now().steady)
        refusing = [self._describe(one) for one in online if one.refuses and not one.draining]
        left = [
            one
            for one in refusing
            if one.instance not in search.excluded and search.only in ("", one.instance)
        ]
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
            return self._at(tenant, service, terms.address, now, terms.vouched)
        return found

    def _at(
        self, tenant: str, service: str, base: str, now: int, vouched: bool | None = None
    ) -> list[Candidate]:
        """An address as an instance, unless it was draining a moment ago."""
        if self._avoided.get((tenant, service, base), now) > now:
            return []
        busy = self._in_flight.busy((tenant, service, base), 0, now)
        return [Candidate(base, base, (), None, busy, vouched)]

    def _describe(self, one: Instance) -> Candidate:
        place = (one.tenant, one.service, one.instance_id)
        elsewhere = 0 if self._others is None else self._others.calls_to(place)
        busy = self._in_flight.busy(place, one.load, one.seen, elsewhere)
        return Candidate(one.instance_id, one.address, one.tags, one.capacity, busy, one.vouched)

    def _take_place(self, call: CallPart) -> bool | Literal[RouterAnswer.PAUSED] | None:
        """Whether the call may be made; None: not yet."""
        if self._is_paused(call.tenant, call.service):
            return RouterAnswer.PAUSED
        if self._has_withdrawn(call):
            return False
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

    def _has_withdrawn(self, call: CallPart) -> bool:
        place = (call.tenant, call.service, call.instance)
        known = self._instances.get(*place)
        return self._instances.left_at(*place) is not None if known is None else known.draining

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
            window.want(self._queues.count(("call", call.tenant, call.service)) or 1, now)
            return False
        window.take(now)
        return True


def _queue_of(call: CallPart) -> Key:
    return ("call", call.tenant, call.service, call.instance)


class _CallInFlight(msgspec.Struct, frozen=True, gc=False):
    place: InstancePlace
    since: int


class InFlight:
    """Counts the open calls of each instance. Moments are steady ms; nothing is stored."""

    def __init__(self) -> None:
        self._calls: dict[Token, _CallInFlight] = {}
        self._open: dict[InstancePlace, dict[Token, int]] = {}

    def busy(self, place: InstancePlace, load: float, seen: int, elsewhere: int = 0) -> float:
        """The load of the instance: what it reported at `seen`, plus the calls it was given since.

        At least the number of its open calls, with those that it has `elsewhere`.
        """
        calls = self._open.get(place)
        if not calls:
            return max(load, elsewhere)
        since = sum(moment >= seen for moment in calls.values())
        return max(len(calls) + elsewhere, load + since)

    def counts(self) -> list[tuple[InstancePlace, int]]:
        """The open calls of each instance that has some."""
        return [(place, len(calls)) for place, calls in self._open.items()]

    def holds(self, token: Token) -> bool:
        """Whether this call or search holds a place."""
        return token in self._calls

    def hold(self, token: Token, place: InstancePlace, now: int) -> None:
        """Counts a call, or one that a search has reserved."""
        self.leave(token)
        self._calls[token] = _CallInFlight(place, now)
        self._open.setdefault(place, {})[token] = now

    def pass_on(self, held: Token, token: Token) -> None:
        """Hands the place that a search reserved to the call that it led to."""
        call = self._calls[held]
        self.leave(held)
        self.hold(token, call.place, call.since)

    def held_for(self, token: Token, place: InstancePlace) -> Token | None:
        """The token of the search by which the attempt of `token` reserved a place at the instance."""
        for held in self._open.get(place, ()):
            if _attempt(held) == _attempt(token) and held.kind != token.kind:
                return held
        return None

    def leave(self, token: Token) -> InstancePlace | None:
        """Ends a call. Returns where it was; None: it held no place."""
        call = self._calls.pop(token, None)
        if call is None:
            return None
        calls = self._open[call.place]
        del calls[token]
        if not calls:
            del self._open[call.place]
        return call.place


def _attempt(token: Token) -> tuple[str, int, int]:
    return token.uid, token.execute_number, token.request_counts
