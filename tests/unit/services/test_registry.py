"""The registry: what services say is kept, which declaration is in force, how much all may declare, and where
services are (SPEC sections 9, 11, 13).
"""

import asyncio
from collections.abc import Mapping

import msgspec
import pytest

from scheduler_service.domain.registered_services import Service
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.services.instances import Instance, Instances
from scheduler_service.services.registry import (
    NO_TIMERS,
    DeclarationsFull,
    DeclaredRoom,
    Registry,
    RegistryDirectory,
    TimerDeclaration,
    TimerTexts,
    digest_of,
)
from scheduler_service.services.router import Terms
from tests.unit.services.tables import START, MemoryTable, StandingClock

TENANT, NAME = "default", "billing"
SAID = Service(tenant=TENANT, name=NAME, address="http://billing.test")
OLD = TimerDeclaration(digest_of(b'[{"jobId":"a"}]'), b'[{"jobId":"a"}]')
NEW = TimerDeclaration(digest_of(b'[{"jobId":"b"}]'), b'[{"jobId":"b"}]')


def instance(instance_id: str, clock: StandingClock, **said: object) -> Instance:
    address = f"http://{instance_id}.test"
    return Instance(NAME, TENANT, instance_id, address, seen=clock.now().steady, **said)  # type: ignore[arg-type]


async def test_what_another_node_wrote_is_read_again(
    registry: Registry, table: MemoryTable, clock: StandingClock
) -> None:
    """Two registries over one table: what registers, changes and leaves at one is found by the other."""
    other = Registry(table=table, instances=Instances(), clock=clock)
    kept, _ = await registry.register(SAID, OLD)
    await other.refresh()
    assert (other.all(), other.find(TENANT, NAME)) == ((kept,), kept)
    assert not other.awaits_instances(TENANT, NAME)
    await registry.register(SAID, NEW)
    await other.refresh()
    assert [one.digest for one in other.all()] == [NEW.digest]
    await registry.remove(TENANT, NAME)
    await other.refresh()
    assert other.find(TENANT, NAME) is None
    (removed,) = registry.all()
    await registry.forget(removed)
    await other.refresh()
    assert other.all() == ()


async def test_an_unread_table_leaves_what_is_known(registry: Registry, table: MemoryTable) -> None:
    """A failed reading changes nothing in memory."""
    kept, _ = await registry.register(SAID, OLD)
    table.is_down = True
    with pytest.raises(StoreUnavailable):
        await registry.refresh()
    assert registry.all() == (kept,)


async def test_a_service_is_kept_and_found_after_a_restart(
    registry: Registry, table: MemoryTable, clock: StandingClock
) -> None:
    """What a service declares outlives the process, and a repetition writes nothing (SPEC section 11)."""
    kept, is_new = await registry.register(SAID, OLD)
    assert is_new
    assert (kept.created_at, kept.updated_at, kept.digest) == (START, START, OLD.digest)
    clock.steady += 30_000
    assert await registry.register(SAID, OLD) == (kept, False)
    assert table.writes == 1
    again = Registry(table=table, instances=Instances(), clock=clock)
    assert again.find(TENANT, NAME) is None
    await again.load()
    assert again.find(TENANT, NAME) == kept
    assert again.services(TENANT) == (kept,)
    assert again.services("other") == ()
    assert await again.timers(TENANT, NAME) == OLD.text


async def test_a_change_is_dated_and_timers_stay_unless_they_are_said(
    registry: Registry, clock: StandingClock
) -> None:
    """`timers` left out: what was declared stays; `[]`: nothing is declared any more (SPEC section 13)."""
    await registry.register(SAID, OLD)
    clock.steady = 5_000
    changed, is_new = await registry.register(msgspec.structs.replace(SAID, address=None), None)
    assert not is_new
    assert (changed.address, changed.created_at, changed.updated_at) == (None, START, START + 5_000)
    assert (changed.digest, await registry.timers(TENANT, NAME)) == (OLD.digest, OLD.text)
    emptied, _ = await registry.register(changed, NO_TIMERS)
    assert (emptied.digest, await registry.timers(TENANT, NAME)) == (NO_TIMERS.digest, b"[]")


async def test_an_instance_brings_its_service_along(
    registry: Registry, table: MemoryTable, clock: StandingClock
) -> None:
    """Full registration with the declared jobs: nobody registers the service first (SPEC section 13)."""
    said, is_new = await registry.announce(instance("i1", clock), OLD)
    assert is_new
    assert said.declares == OLD.digest
    assert await registry.timers(TENANT, NAME) == OLD.text
    clock.steady = 1_000
    _, is_new = await registry.announce(instance("i1", clock), OLD)
    assert not is_new
    assert table.writes == 1
    assert [one.seen for one in registry.instances.known(TENANT, NAME)] == [1_000]
    await registry.announce(instance("i2", clock), None)
    assert await registry.timers(TENANT, NAME) == OLD.text


async def test_the_newer_of_two_versions_wins_while_both_run(
    registry: Registry, clock: StandingClock
) -> None:
    """In a rolling deployment repetitions of the older instances change nothing back (SPEC section 11)."""
    await registry.announce(instance("old", clock), OLD)
    await registry.announce(instance("new", clock), NEW)
    for _ in range(5):
        clock.steady += 5_000
        await registry.announce(instance("old", clock), OLD)
        assert await registry.timers(TENANT, NAME) == NEW.text
        await registry.announce(instance("new", clock), NEW)
    registry.instances.remove(TENANT, NAME, "old")
    await registry.announce(instance("new", clock), NEW)
    assert await registry.timers(TENANT, NAME) == NEW.text


@pytest.mark.parametrize("is_stopped", [True, False])
async def test_the_older_version_counts_again_when_the_newer_is_gone(
    registry: Registry, clock: StandingClock, is_stopped: bool
) -> None:
    """A deployment that was rolled back, by a stop or by a crash, takes its declaration along."""
    await registry.announce(instance("old", clock), OLD)
    await registry.announce(instance("new", clock), NEW)
    if is_stopped:
        registry.instances.remove(TENANT, NAME, "new")
    else:
        clock.steady += 10_000
    await registry.announce(instance("old", clock), OLD)
    assert await registry.timers(TENANT, NAME) == OLD.text


async def test_a_start_between_two_versions_settles(
    registry: Registry, table: MemoryTable, clock: StandingClock
) -> None:
    """A scheduler that starts in the middle of a deployment ends with the version that stays."""
    await registry.announce(instance("new", clock), NEW)
    started = Registry(table=table, instances=Instances(), clock=clock)
    await started.load()
    await started.announce(instance("new", clock), NEW)
    await started.announce(instance("old", clock), OLD)
    clock.steady += 10_000
    await started.announce(instance("new", clock), NEW)
    assert await started.timers(TENANT, NAME) == NEW.text


async def test_a_removed_service_is_gone_until_it_registers_again(
    registry: Registry, clock: StandingClock
) -> None:
    """Its timers are declared no more; a trace stays until its jobs are gone (SPEC section 11)."""
    await registry.announce(instance("i1", clock), OLD)
    assert await registry.remove(TENANT, NAME)
    assert not await registry.remove(TENANT, NAME)
    assert registry.find(TENANT, NAME) is None
    assert registry.instances.known(TENANT, NAME) == ()
    assert await registry.timers(TENANT, NAME) == b"[]"
    (gone,) = registry.all()
    assert gone.removed_at == START
    await registry.announce(instance("i1", clock), OLD)
    assert registry.find(TENANT, NAME) is not None
    await registry.forget(gone)
    assert registry.find(TENANT, NAME) is not None
    assert await registry.remove(TENANT, NAME)
    await registry.forget(registry.all()[0])
    assert registry.all() == ()


async def test_what_cannot_be_written_is_not_done(
    registry: Registry, table: MemoryTable, clock: StandingClock
) -> None:
    """503: nothing was done, in memory either (SPEC section 10)."""
    table.is_down = True
    with pytest.raises(StoreUnavailable):
        await registry.register(SAID, OLD)
    with pytest.raises(StoreUnavailable):
        await registry.announce(instance("i1", clock), OLD)
    assert registry.all() == ()
    assert registry.instances.known(TENANT, NAME) == ()


async def test_a_known_instance_repeats_itself_without_the_table(
    registry: Registry, table: MemoryTable, clock: StandingClock
) -> None:
    """Routing needs no database: a registration that says nothing new is memory alone (SPEC section 13)."""
    await registry.announce(instance("i1", clock), OLD)
    table.is_down = True
    clock.steady = 30_000
    await registry.announce(instance("i1", clock), OLD)
    assert [one.seen for one in registry.instances.online(TENANT, NAME, 30_000)] == [30_000]


async def test_instances_of_before_are_awaited_until_they_would_be_offline(
    registry: Registry, table: MemoryTable, clock: StandingClock
) -> None:
    """After a start, and for services that were registered before it; nobody else is waited for."""
    await registry.register(SAID, None)
    await registry.register(msgspec.structs.replace(SAID, name="left"), None)
    assert not registry.awaits_instances(TENANT, NAME)
    again = Registry(table=table, instances=Instances(offline_after=7_000), clock=clock)
    clock.steady = 60_000
    await again.load()
    await again.register(msgspec.structs.replace(SAID, name="new"), None)
    await again.remove(TENANT, "left")
    awaited = [again.awaits_instances(TENANT, name) for name in (NAME, "new", "left", "nobody")]
    assert awaited == [True, False, False, False]
    clock.steady += 6_999
    assert again.awaits_instances(TENANT, NAME)
    clock.steady += 1
    assert not again.awaits_instances(TENANT, NAME)


SERVICE = Service(tenant="default", name="shop", digest=b"1")


class CountingTable(MemoryTable):
    """Counts the reads of timers, each of which is a text of its own."""

    reads = 0

    async def timers(self, tenant: str, name: str) -> bytes:
        self.reads += 1
        await asyncio.sleep(0)
        return b"[%d]" % self.reads


async def test_answers_of_one_declaration_share_its_text() -> None:
    """Whether they ask at one moment or while others are being sent; another declaration is read anew."""
    table = CountingTable()
    texts = TimerTexts(table=table)
    first, second = await asyncio.gather(texts.read(SERVICE), texts.read(SERVICE))
    assert first is second
    assert (await texts.read(SERVICE)).text == b"[1]"
    other = Service(tenant="default", name="shop", digest=b"2")
    assert (await texts.read(other)).text == b"[2]"
    assert table.reads == 2


def directory_of(
    registry: Registry, clock: StandingClock, static: Mapping[str, str] = {}
) -> RegistryDirectory:
    """A directory whose services wait 30 s."""
    return RegistryDirectory(
        registry=registry,
        static=static,
        clock=clock,
        terms=lambda *key: Terms(awaits_instances=registry.awaits_instances(*key), wait=30_000),
    )


async def test_a_service_is_where_settings_say_else_an_instance_else_its_own_address(
    registry: Registry, clock: StandingClock
) -> None:
    """What `service://name/` reaches (SPEC section 9)."""
    static = {"static": "http://static.test"}
    directory = directory_of(registry, clock, static=static)
    assert directory.address(NAME) is None
    await registry.register(SAID, None)
    assert directory.address(NAME) == "http://billing.test"
    await registry.announce(instance("i1", clock), None)
    await registry.announce(instance("i2", clock), None)
    assert directory.address(NAME) == "http://i1.test"
    registry.instances.mark_draining(TENANT, NAME, "i1")
    assert directory.address(NAME) == "http://i2.test"
    registry.instances.mark_refused(TENANT, NAME, "i2")
    assert directory.address(NAME) == "http://billing.test"
    clock.steady = 10_000
    assert directory.address(NAME) == "http://billing.test"
    assert directory.address("static") == "http://static.test"
    forged = msgspec.structs.replace(instance("i3", clock), service="static")
    await registry.announce(forged, None)
    assert directory.address("static") == "http://static.test"


async def test_a_tenant_sees_no_service_of_another(registry: Registry, clock: StandingClock) -> None:
    """Neither its instances nor its own address."""
    directory = directory_of(registry, clock)
    await registry.register(SAID, None)
    await registry.announce(instance("i1", clock), None)
    assert directory.address(NAME) is not None
    assert directory.address(f"elsewhere|{NAME}") is None


async def test_who_was_there_before_the_start_is_awaited(
    registry: Registry, table: MemoryTable, clock: StandingClock
) -> None:
    """Of its tenant alone."""
    await registry.register(SAID, None)
    again = Registry(table=table, instances=Instances(), clock=clock)
    await again.load()
    directory = directory_of(again, clock)
    found = [directory.wait(name) > 30_000 for name in (NAME, f"elsewhere|{NAME}")]
    assert found == [True, False]
    clock.steady += 10_000
    assert directory_of(again, clock).wait(NAME) == 30_000


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
