"""Lookups in threads of their own, a few at a time (SPEC section 9)."""

import asyncio
import threading
from collections.abc import Sequence
from ipaddress import ip_address

import pytest

from scheduler_service.transport.addresses import Address
from scheduler_service.transport.spare_resolver import SpareResolver

pytestmark = pytest.mark.anyio


async def test_the_machines_own_resolver_is_asked() -> None:
    """`localhost` is looked up as the machine does; a name that nobody has is an OSError."""
    resolver = SpareResolver()
    assert {address.is_loopback for address in await resolver.resolve("localhost")} == {True}
    with pytest.raises(OSError, match=r"."):
        await resolver.resolve("a" * 300)


async def test_only_so_many_run_at_a_time() -> None:
    """The others wait for their turn, and all are answered."""
    gate, running, most = threading.Event(), 0, 0
    counted = threading.Lock()

    def look_up(host: str) -> Sequence[Address]:
        nonlocal running, most
        with counted:
            running += 1
            most = max(most, running)
        gate.wait(20)
        with counted:
            running -= 1
        return [ip_address("10.0.0.1")]

    resolver = SpareResolver(look_up=look_up, most=2)
    asking = [asyncio.ensure_future(resolver.resolve(f"{index}.test")) for index in range(6)]
    for _ in range(20):
        await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*asking) == [[ip_address("10.0.0.1")]] * 6
    assert most <= 2
