"""What each instance has to do, as far as this process knows: calls in flight, and what it said itself."""

import msgspec

from scheduler_service.domain.wire import Token

HeldPlace = tuple[str, str, str]
"""Tenant, service, instance."""


class _CallInFlight(msgspec.Struct, frozen=True, gc=False):
    place: HeldPlace
    since: int


class InFlight:
    """Counts the calls that are open at each instance. Moments are steady ms; nothing of it is stored."""

    def __init__(self) -> None:
        self._calls: dict[Token, _CallInFlight] = {}
        self._open: dict[HeldPlace, dict[Token, int]] = {}

    def busy(self, place: HeldPlace, load: float, seen: int) -> float:
        """How much the instance has to do: what it said at `seen`, and what it was given since."""
        calls = self._open.get(place)
        if not calls:
            return load
        since = sum(moment >= seen for moment in calls.values())
        return max(len(calls), load + since)

    def holds(self, token: Token) -> bool:
        """Whether a place is held for this call or search."""
        return token in self._calls

    def hold(self, token: Token, place: HeldPlace, now: int) -> None:
        """One more call, or one that is about to be made."""
        self.leave(token)
        self._calls[token] = _CallInFlight(place, now)
        self._open.setdefault(place, {})[token] = now

    def pass_on(self, held: Token, token: Token) -> None:
        """What was held for a search belongs to the call that it led to."""
        call = self._calls[held]
        self.leave(held)
        self.hold(token, call.place, call.since)

    def held_for(self, token: Token, place: HeldPlace) -> Token | None:
        """What the attempt of `token` holds at the instance by a search of its own."""
        for held in self._open.get(place, ()):
            if _attempt(held) == _attempt(token) and held.kind != token.kind:
                return held
        return None

    def leave(self, token: Token) -> HeldPlace | None:
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
