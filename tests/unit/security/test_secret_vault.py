"""Stored secrets: sealed where they lie, and known to all processes soon (SPEC section 14)."""

import asyncio
import base64

import pytest
from msgspec.structs import replace

from scheduler_service.pacing.table_follower import LOOK_SECONDS
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.shared_tables import StoredSecret
from scheduler_service.security.secret_vault import Seal, SecretVault, Unsealable, read_seal_key
from tests.manual_clock import ManualClock
from tests.rows import each_row
from tests.unit.security.memory_secrets import MemorySecrets

KEY, OTHER = bytes(range(32)), bytes(range(32, 64))
VALUES = ("t0p-secret ✓", "before-it")


def vault(table: MemorySecrets, *keys: bytes, told: list[str | None] | None = None) -> SecretVault:
    trouble = [] if told is None else told
    return SecretVault(
        table=table, seal=Seal(keys or (KEY,)), clock=ManualClock(wall=5_000), on_trouble=trouble.append
    )


async def test_what_is_stored_is_sealed_and_found() -> None:
    """Nothing of a value is in the table; each sealing is another one."""
    table = MemorySecrets()
    known = vault(table)
    for name in ("A", "B"):
        await known.put("default", name, VALUES)
    assert known.find("default", "A") == VALUES
    assert known.find("team", "A") == ()
    assert sorted(known.values("default")) == sorted(VALUES * 2)
    first, second = (one.sealed for one in table.rows.values())
    assert first[:13] != second[:13]
    for value in VALUES:
        assert value.encode() not in first
    assert [(one.name, one.source, one.values, one.updated_at) for one in known.list("default")] == [
        ("A", "stored", 2, 5_000),
        ("B", "stored", 2, 5_000),
    ]


async def test_other_processes_see_it_at_their_next_look() -> None:
    """And that it was removed; nothing of it stays in the table."""
    table = MemorySecrets()
    one, other = vault(table), vault(table)
    await one.put("default", "A", VALUES)
    assert other.find("default", "A") == ()
    await other.look()
    assert other.find("default", "A") == VALUES
    assert await other.remove("default", "A")
    assert not await other.remove("default", "A")
    assert table.rows["default", "A"].sealed == b""
    await one.look()
    assert one.find("default", "A") == ()


async def test_those_who_miss_a_secret_share_the_next_look() -> None:
    """However many: the table is asked no more often, and what was stored before is known to all."""
    table, clock = MemorySecrets(), ManualClock(wall=5_000)
    seal = Seal([KEY])
    known = SecretVault(
        table=table, seal=seal, clock=clock, rest=lambda seconds: clock.sleep(round(seconds * 1_000))
    )
    await known.next_look()  # nobody looks yet
    known.start()
    for is_away, found in ((True, ()), (False, VALUES)):
        waiting = [asyncio.ensure_future(known.next_look()) for _ in range(100)]
        await vault(table).put("default", "A", VALUES)
        for _ in range(3):
            await asyncio.sleep(0)
        table.is_away, looks = is_away, table.looks
        clock.advance(round(LOOK_SECONDS * 1_000))
        await asyncio.gather(*waiting)
        assert (table.looks - looks, known.find("default", "A")) == (1, found)
        table.is_away = False
    waiting = [asyncio.ensure_future(known.next_look())]
    await asyncio.sleep(0)
    await known.stop()
    await asyncio.gather(*waiting)


async def test_what_was_read_last_is_valid_while_the_table_is_away() -> None:
    """No request fails for it; what has changed meanwhile is read when it is back."""
    table = MemorySecrets()
    one, other = vault(table), vault(table)
    await one.put("default", "A", VALUES)
    table.is_away = True
    for read in (one.look, one.load):
        with pytest.raises(StoreUnavailable):
            await read()
    assert one.find("default", "A") == VALUES
    table.is_away = False
    await other.put("default", "B", VALUES)
    await one.look()
    assert one.find("default", "B") == VALUES


async def test_two_keys_while_one_replaces_the_other() -> None:
    """The first one seals, both open; one that is not there any more is told of, and its secrets are none."""
    table, told = MemorySecrets(), list[str | None]()
    await vault(table, OTHER).put("default", "A", VALUES)
    both = vault(table, KEY, OTHER)
    await both.load()
    assert both.find("default", "A") == VALUES
    await both.put("default", "B", VALUES)
    alone = vault(table, KEY, told=told)
    await alone.load()
    assert (alone.find("default", "A"), alone.find("default", "B")) == ((), VALUES)
    assert [one.values for one in alone.list("default")] == [0, 2]
    assert told == ["1 stored secrets cannot be opened: secrets_key is not the key they are sealed under"]


async def test_a_sealed_value_opens_at_its_place_alone() -> None:
    """Who can write into the database cannot give a tenant the secret of another, nor change one."""
    seal = Seal([KEY])
    stored = StoredSecret("default", "A", seal.close("default", "A", VALUES), 1, 1)
    assert seal.open(stored) == VALUES
    flipped = bytes([*stored.sealed[:-1], stored.sealed[-1] ^ 1])
    for wrong in (
        replace(stored, tenant="team"),
        replace(stored, name="B"),
        replace(stored, sealed=flipped),
        replace(stored, sealed=stored.sealed[:5]),
        replace(stored, sealed=b"\x02" + stored.sealed[1:]),
    ):
        with pytest.raises(Unsealable):
            seal.open(wrong)


@each_row("text", ["", "short", base64.b64encode(bytes(31)).decode(), "x" * 44, "é" * 44])
def test_what_no_key_is(text: str) -> None:
    """The message says how to make one, and does not repeat it."""
    with pytest.raises(ValueError, match="openssl rand -base64 32") as caught:
        read_seal_key(text)
    assert not text or text not in str(caught.value)


def test_a_key_in_either_alphabet() -> None:
    """With a line end behind it, as commands write it."""
    key = b"\xfb\xff" * 16
    assert read_seal_key(base64.b64encode(key).decode() + "\n") == key
    assert read_seal_key(base64.urlsafe_b64encode(key).decode()) == key
