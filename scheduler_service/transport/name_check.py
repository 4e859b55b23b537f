"""Which host names lead to a refused address today: asked when a definition is posted (SPEC section 9)."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from functools import partial

import msgspec

from scheduler_service.transport.egress_guard import EgressPolicy, Resolver

MOST_LOOKUPS = 64
"""Lookups that may be open at a time; names beyond them are left out."""

MOST_KEPT = 1_024
"""Verdicts that are kept."""


class _Verdict(msgspec.Struct, frozen=True):
    """Why a name is refused, or None, until `until` (seconds of the loop's clock)."""

    reason: str | None
    until: float


class NameCheck:
    """Judges names by `policy`; each verdict is kept for `kept` seconds.

    A question is answered within `patience` seconds. Names that are not resolved by then, or that have no
    address, are left out; their lookups go on for the next question.
    """

    def __init__(
        self, *, policy: EgressPolicy, resolver: Resolver, patience: float = 0.2, kept: float = 60.0
    ) -> None:
        self._policy = policy
        self._resolver = resolver
        self._patience = patience
        self._kept = kept
        self._verdicts: dict[str, _Verdict] = {}
        self._lookups: dict[str, asyncio.Task[None]] = {}
        self._slow: set[str] = set()

    async def __call__(self, hosts: Collection[str]) -> Mapping[str, str]:
        """The refused ones of `hosts` (lower case), with the reason. Never raises."""
        now = asyncio.get_running_loop().time()
        unknown = [host for host in dict.fromkeys(hosts) if not self._is_known(host, now)]
        if unknown:
            await self._look_up(unknown)
        found = {host: self._verdicts[host].reason for host in hosts if host in self._verdicts}
        return {host: reason for host, reason in found.items() if reason is not None}

    def _is_known(self, host: str, now: float) -> bool:
        verdict = self._verdicts.get(host)
        return verdict is not None and now < verdict.until

    async def _look_up(self, hosts: Sequence[str]) -> None:
        """Waits for the lookups of `hosts`, which questions share; not for one that was slow already."""
        waited = {}
        for host in hosts:
            lookup = self._lookups.get(host) or self._begin(host)
            if lookup is not None and host not in self._slow:
                waited[host] = lookup
        if waited:
            await asyncio.wait(waited.values(), timeout=self._patience)
            self._slow.update(host for host, lookup in waited.items() if not lookup.done())

    def _begin(self, host: str) -> asyncio.Task[None] | None:
        if len(self._lookups) >= MOST_LOOKUPS:
            return None
        lookup = self._lookups[host] = asyncio.create_task(self._judge(host))
        lookup.add_done_callback(partial(self._forget, host))
        return lookup

    def _forget(self, host: str, _: object) -> None:
        self._lookups.pop(host, None)
        self._slow.discard(host)

    async def _judge(self, host: str) -> None:
        try:
            addresses = await self._resolver.resolve(host)
        except (OSError, UnicodeError):
            addresses = ()
        reason = None
        for address in addresses:
            refusal = self._policy.refuse_address(host, address)
            if refusal is not None:
                reason = f"it resolves to {address}: {refusal}"
                break
        self._verdicts.pop(host, None)
        self._verdicts[host] = _Verdict(reason, asyncio.get_running_loop().time() + self._kept)
        if len(self._verdicts) > MOST_KEPT:
            del self._verdicts[next(iter(self._verdicts))]
