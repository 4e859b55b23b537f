"""Names that lead to a refused address today are known when a job is posted (SPEC section 9)."""

import asyncio
from collections.abc import Sequence
from ipaddress import ip_address

from scheduler_service.transport.addresses import Address
from scheduler_service.transport.egress_guard import EgressPolicy
from scheduler_service.transport.name_check import MOST_LOOKUPS, NameCheck
from tests.unit.transport.servers import TableResolver

POLICY = EgressPolicy(allow=["10.9.0.0/16"], deny=["93.184.216.34"])
TABLE = {
    "private.test": [["10.0.0.1"]],
    "mixed.test": [["93.184.216.35", "169.254.169.254"]],
    "public.test": [["93.184.216.35"]],
    "allowed.test": [["10.9.0.1"]],
    "denied.test": [["93.184.216.34"]],
    "turns.test": [["10.0.0.1"], ["93.184.216.35"]],
}


class SlowResolver:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_answer = asyncio.Event()

    async def resolve(self, host: str) -> Sequence[Address]:
        self.asked.append(host)
        await self.may_answer.wait()
        return [ip_address("10.0.0.1")]


async def test_a_name_of_a_refused_address_is_named_with_the_reason() -> None:
    """One refused address refuses the name; a name without an address is no concern here."""
    check = NameCheck(policy=POLICY, resolver=TableResolver(dict(TABLE)), patience=10)
    found = await check(
        ["private.test", "mixed.test", "public.test", "allowed.test", "denied.test", "no.test"]
    )
    assert sorted(found) == ["denied.test", "mixed.test", "private.test"]
    assert found["private.test"].startswith("it resolves to 10.0.0.1: it is private")
    assert "169.254.169.254" in found["mixed.test"]
    # Known names cost no lookup; one whose time is over is looked up again
    resolver = TableResolver(dict(TABLE))
    check = NameCheck(policy=POLICY, resolver=resolver, patience=10)
    for _ in range(3):
        assert list(await check(["turns.test", "no.test"])) == ["turns.test"]
    assert resolver.asked == ["turns.test", "no.test"]
    forgetful = NameCheck(policy=POLICY, resolver=TableResolver(dict(TABLE)), patience=10, kept=0)
    assert list(await forgetful(["turns.test"])) == ["turns.test"]
    assert list(await forgetful(["turns.test"])) == []


async def test_a_slow_name_server_holds_nobody_up() -> None:
    """The question is answered without it, the next one does not wait at all, and a later one knows."""
    resolver = SlowResolver()
    check = NameCheck(policy=POLICY, resolver=resolver, patience=0.01)
    assert await check(["slow.test"]) == {}
    asking = asyncio.ensure_future(check(["slow.test"]))
    await asyncio.sleep(0)
    assert asking.done()
    resolver.may_answer.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert list(await check(["slow.test"])) == ["slow.test"]
    assert resolver.asked == ["slow.test"]


async def test_lookups_are_bounded() -> None:
    """However many names somebody posts, only so many are looked up at a time."""
    resolver = SlowResolver()
    check = NameCheck(policy=POLICY, resolver=resolver, patience=0.01)
    assert await check([f"{index}.test" for index in range(1_000)]) == {}
    assert len(resolver.asked) == MOST_LOOKUPS
