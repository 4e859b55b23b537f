"""The load of each instance as this process sees it: calls in flight and the load it reported."""

import msgspec

from scheduler_service.domain.services import InstancePlace
from scheduler_service.domain.wire import Token


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
