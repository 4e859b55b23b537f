"""How much all services may declare together, as stored (SPEC section 11)."""

import asyncio

import pytest

from scheduler_service.domain.services import Service
from scheduler_service.services.instances import Instance, Instances
from scheduler_service.services.registry import (
    NO_TIMERS,
    DeclarationsFull,
    DeclaredRoom,
    Registry,
    TimerDeclaration,
    digest_of,
)
from tests.unit.services.tables import MemoryTable, StandingClock

TENANT = "default"


def declaration(size: int) -> TimerDeclaration:
    text = b"[%s]" % (b"x" * (size - 2))
    return TimerDeclaration(digest_of(text), text)


def service(name: str, **said: object) -> Service:
    return Service(tenant=TENANT, name=name, **said)  # type: ignore[arg-type]


def registry_of(table: MemoryTable, clock: StandingClock, most: int = 100) -> Registry:
    room = DeclaredRoom(table=table, most=most)
    return Registry(table=table, instances=Instances(), clock=clock, room=room)


async def test_what_is_too_much_changes_nothing(table: MemoryTable, clock: StandingClock) -> None:
    """Up to the limit is taken; beyond it, neither service, timers nor instance are there."""
    registry = registry_of(table, clock)
    await registry.register(service("a"), declaration(60))
    await registry.register(service("b"), declaration(40))
    before, writes = registry.all(), table.writes
    with pytest.raises(DeclarationsFull, match=r"take 3 bytes and those of the other services 100, .* 100;"):
        await registry.register(service("c"), declaration(3))
    with pytest.raises(DeclarationsFull):
        await registry.register(service("b", address="http://b.test"), declaration(41))
    with pytest.raises(DeclarationsFull):
        await registry.announce(Instance("c", TENANT, "c-1", "http://c.test"), declaration(3))
    assert (registry.all(), table.writes) == (before, writes)
    assert registry.instances.known(TENANT, "c") == ()
    assert not registry.take_anew(TENANT, "c")


async def test_what_adds_nothing_is_taken_where_there_is_no_room(
    table: MemoryTable, clock: StandingClock
) -> None:
    """Also after a restart with a lower limit: the same again, less, none, and who says nothing of timers."""
    await registry_of(table, clock).register(service("a"), declaration(90))
    registry = registry_of(table, clock, most=10)
    await registry.load()
    assert await registry.timers(TENANT, "a") == declaration(90).text
    await registry.announce(Instance("a", TENANT, "a-1", "http://a.test"), declaration(90))
    await registry.register(service("a", address="http://a.test"), None)
    await registry.register(service("a"), declaration(80))
    await registry.register(service("b"), NO_TIMERS)
    with pytest.raises(DeclarationsFull):
        await registry.register(service("a"), declaration(81))
    assert await registry.timers(TENANT, "a") == declaration(80).text


async def test_removed_services_leave_room(table: MemoryTable, clock: StandingClock) -> None:
    """What they declared counts no longer."""
    registry = registry_of(table, clock)
    await registry.register(service("a"), declaration(90))
    await registry.remove(TENANT, "a")
    await registry.register(service("b"), declaration(90))
    with pytest.raises(DeclarationsFull):
        await registry.register(service("a"), declaration(90))


@pytest.mark.parametrize(("most", "said"), [(89, [("declarations_exceeded", 90, 89)]), (90, [])])
async def test_more_than_there_is_room_for_is_in_the_log(
    table: MemoryTable, clock: StandingClock, most: int, said: list[tuple[str, int, int]]
) -> None:
    """With how much it is and may be."""
    lines: list[tuple[str, object, object]] = []

    def write(event: str, **keys: object) -> None:
        lines.append((event, keys["bytes"], keys["limit"]))

    await registry_of(table, clock).register(service("a"), declaration(90))
    await DeclaredRoom(table=table, most=most).report(write)
    assert lines == said


async def test_services_at_one_moment_pass_no_limit(table: MemoryTable, clock: StandingClock) -> None:
    """As many declare as there is room for."""
    registry = registry_of(table, clock)
    asked = [registry.register(service(f"s{number}"), declaration(30)) for number in range(9)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(one, DeclarationsFull) for one in answers) == 6
    assert len(registry.all()) == 3
