"""What each instance has to do, as far as this process knows: calls in flight, and what it said itself."""

import msgspec

from scheduler_service.domain.wire import Token

Place = tuple[str, str, str]
"""Tenant, service, instance."""


class _Call(msgspec.Struct, frozen=True, gc=False):
    place: Place
    since: int


class Occupancy:
    """Counts the calls that are open at each instance. Moments are steady ms; nothing of it is stored."""

    def __init__(self) -> None:
        self._calls: dict[Token, _Call] = {}
        self._open: dict[Place, dict[Token, int]] = {}

    def busy(self, place: Place, load: float, seen: int) -> float:
        """How much the instance has to do: what it said at `seen`, and what it was given since."""
        calls = self._open.get(place)
        if not calls:
            return load
        since = sum(moment >= seen for moment in calls.values())
        return max(len(calls), load + since)

    def holds(self, token: Token) -> bool:
        """Whether a place is held for this call or search."""
        return token in self._calls

    def hold(self, token: Token, place: Place, now: int) -> None:
        """One more call, or one that is about to be made."""
        self.leave(token)
        self._calls[token] = _Call(place, now)
        self._open.setdefault(place, {})[token] = now

    def pass_on(self, held: Token, token: Token) -> None:
        """What was held for a search belongs to the call that it led to."""
        call = self._calls[held]
        self.leave(held)
        self.hold(token, call.place, call.since)

    def held_for(self, token: Token, place: Place) -> Token | None:
        """What the attempt of `token` holds at the instance by a search of its own."""
        for held in self._open.get(place, ()):
            if _attempt(held) == _attempt(token) and held.kind != token.kind:
                return held
        return None

    def leave(self, token: Token) -> Place | None:
        """The call is over. Answers where it was; None: it was held nowhere."""
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
