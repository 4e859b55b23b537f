"""The keys of callers in memory: what one process makes or ends counts at the others (SPEC section 14)."""

import asyncio
import contextlib
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from scheduler_service.domain.keys_and_roles import OF_SETTINGS, AccessKey, Role, read_key, write_key
from scheduler_service.pacing.table_follower import LOOK_SECONDS
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.security.callers import LONGEST, Caller, Session, SessionSeal
from scheduler_service.security.key_ring import MOST_KEYS, NOTED_MS, KeyRing, OverlapRunsError
from scheduler_service.security.wrong_keys import (
    IN_ALL,
    MOST_ADDRESSES,
    PER_ADDRESS,
    WINDOW_MS,
    WrongKeys,
)
from tests.manual_clock import ManualClock
from tests.rows import each_row
from tests.unit.security.memory_keys import MemoryKeys

pytestmark = pytest.mark.anyio
WANTED = AccessKey(
    key_id="", tenant="default", name="ci", role=Role.EDITOR, digest=b"", created_at=0, created_by="me"
)


class Processes:
    """Two processes over one table, by one clock."""

    def __init__(self) -> None:
        self.table, self.clock = MemoryKeys(), ManualClock(wall=1_000_000)
        self.troubles: list[str | None] = []
        self.here = KeyRing(table=self.table, clock=self.clock)
        self.there = KeyRing(
            table=self.table,
            clock=self.clock,
            on_trouble=self.troubles.append,
            rest=lambda seconds: self.clock.sleep(round(seconds * 1_000)),
        )

    async def make(self, **members: object) -> tuple[AccessKey, str]:
        """A key that both know."""
        made, text = await self.here.create(replace(WANTED, **members))
        await self.there.look()
        return made, text


def session_of(key: AccessKey, expires: int = 2_000_000) -> Session:
    """As a sign-in with the key makes it."""
    return Session(key.tenant, key.role, key.name, expires, key.key_id, key.rotations)


def caller_of(key: AccessKey, session: str = "", end: int = 0) -> Caller:
    return Caller(key.tenant, key.role, key_id=key.key_id, session=session, session_end=end)


async def settle(until: Callable[[], bool]) -> None:
    """Lets other tasks run until this is so; they wait for nothing outside."""
    for _ in range(1_000):
        if until():
            return
        await asyncio.sleep(0)
    assert until()


async def test_a_key_is_found_by_its_text_alone() -> None:
    """Where it was made at once, elsewhere with the next look; nothing else of it is stored than a digest."""
    processes = Processes()
    key, text = await processes.here.create(WANTED)
    assert processes.here.find(text) == key
    assert processes.there.find(text) is None
    await processes.there.look()
    assert processes.there.find(text) == key
    parts = read_key(text)
    assert parts is not None
    secret = parts[1]
    assert len(secret) >= 43
    assert secret not in str(processes.table.rows)
    for wrong in (write_key(key.key_id, "x" * 43), text[:-1], text + "a", secret, "", "pk_é", "pk_" * 1_000):
        assert processes.here.find(wrong) is None, wrong


async def test_a_revoked_key_ends_everywhere() -> None:
    """For good, with sessions and with what waits, at the next look; a second revocation changes nothing."""
    processes = Processes()
    key, text = await processes.make()

    async def wait_there() -> None:
        async with processes.there.watching(caller_of(key)):
            await asyncio.get_running_loop().create_future()

    waiting = asyncio.ensure_future(wait_there())
    await asyncio.sleep(0)
    revoked = await processes.here.revoke(key.key_id)
    assert revoked is not None
    assert processes.here.find(text) is None
    assert processes.here.get(key.key_id, 0) is None
    assert not waiting.done()
    await processes.there.look()
    with pytest.raises(TimeoutError):
        await waiting
    assert processes.there.find(text) is None
    assert await processes.there.revoke(key.key_id) == revoked
    assert await processes.there.rotate(key.key_id, 0) is None
    assert await processes.here.revoke("nobody") is None


async def test_a_process_looks_by_itself_within_a_second() -> None:
    """Once begun; what it cannot read is told, and the keys that it knows stay valid."""
    processes = Processes()
    key, text = await processes.make()
    assert LOOK_SECONDS <= 0.5
    processes.there.start()
    await asyncio.sleep(0)
    await processes.here.revoke(key.key_id)
    processes.clock.advance(500)
    await settle(lambda: processes.there.find(text) is None)
    other, text = await processes.here.create(WANTED)
    processes.clock.advance(500)
    await settle(lambda: processes.there.find(text) is not None)
    processes.table.is_down = True
    processes.clock.advance(500)
    await settle(lambda: "the keys cannot be read" in processes.troubles)
    assert processes.there.find(text) == other
    processes.table.is_down = False
    processes.clock.advance(500)
    await settle(lambda: processes.troubles[-1] is None)
    await processes.there.stop()


async def test_a_rotated_key_has_two_texts_for_a_while() -> None:
    """Sessions and streams that were opened with the old one end with it."""
    processes = Processes()
    key, old = await processes.make()
    rotated = await processes.here.rotate(key.key_id, 60_000)
    assert rotated is not None
    changed, new = rotated
    await processes.there.look()

    async def wait() -> None:
        async with processes.there.watching(caller_of(key)):
            await asyncio.get_running_loop().create_future()

    waiting = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    for ring in (processes.here, processes.there):
        by_old, by_new = ring.find(old), ring.find(new)
        assert by_old is not None
        assert by_new is not None
        assert (by_old.rotations, by_new.rotations) == (0, 1)
        assert ring.get(key.key_id, 0) == ring.get(key.key_id, 1) == changed
    processes.clock.advance(60_000)
    await processes.there.look()
    with pytest.raises(TimeoutError):
        await waiting
    for ring in (processes.here, processes.there):
        assert (ring.find(old), ring.get(key.key_id, 0)) == (None, None)
        assert ring.find(new) is not None
    at_once = await processes.here.rotate(key.key_id, 0)
    assert at_once is not None
    assert processes.here.find(new) is None
    assert processes.here.find(at_once[1]) is not None


async def test_a_key_ends_by_itself() -> None:
    """At its end, to the ms; what waits under it with the next look. It stays in the list."""
    processes = Processes()
    key, text = await processes.make(expires_at=1_005_000)
    processes.clock.advance(4_999)
    assert processes.there.find(text) is not None
    processes.clock.advance(1)
    assert processes.there.find(text) is None
    assert [one.key_id for one in processes.there.list("default")] == [key.key_id]
    assert processes.there.list("other") == []
    assert processes.there.is_used, "a key is needed, though the last one has ended"


async def test_two_processes_change_one_key() -> None:
    """The later one changes what the earlier one left."""
    processes = Processes()
    key, text = await processes.make()
    await processes.here.rotate(key.key_id, 60_000)
    with pytest.raises(OverlapRunsError, match=r"until 1970-01-01T00:17:40.000Z; wait .* without an overlap"):
        await processes.there.rotate(key.key_id, 60_000)
    assert processes.here.find(text) is not None
    assert await processes.there.rotate(key.key_id, 0) is not None
    await processes.here.look()
    found = processes.here.read(key.key_id)
    assert found is not None
    assert (found.rotations, processes.here.find(text)) == (2, None)


async def test_the_last_use_is_written_now_and_then() -> None:
    """And shown at once where the key was used; a change of the key meanwhile stays."""
    processes = Processes()
    key, text = await processes.make()
    for _ in range(3):
        processes.here.find(text)
        await processes.here.look()
        processes.clock.advance(1_000)
    assert processes.table.noted == [{key.key_id: 1_000_000}]
    seen = processes.here.read(key.key_id)
    assert seen is not None
    assert seen.last_used_at == 1_002_000
    processes.clock.advance(NOTED_MS)
    processes.here.find(text)
    await processes.here.look()
    assert [*processes.table.noted[1]] == [key.key_id]
    processes.here.find(text)
    processes.clock.advance(1)
    processes.here.find(text)
    await processes.here.stop()
    assert len(processes.table.noted) == 3
    processes.table.is_down = True
    processes.here.find(text)
    await processes.here.stop()


async def test_what_cannot_be_written_is_not_in_force() -> None:
    """Whoever was told that it failed has no key, and an old one still counts."""
    processes = Processes()
    key, text = await processes.make()
    processes.table.is_down = True
    for attempt in (
        processes.here.create(WANTED),
        processes.here.revoke(key.key_id),
        processes.here.rotate(key.key_id, 0),
    ):
        with pytest.raises(StoreUnavailable):
            await attempt
    assert processes.here.find(text) is not None
    assert len(processes.here.list("default")) == 1


async def test_so_many_living_keys_one_tenant_may_have() -> None:
    """Those of others, and those that have ended, do not count."""
    processes = Processes()
    kinds: dict[str, dict[str, object]] = {"own": {}, "ended": {"revoked_at": 1}, "other": {"tenant": "team"}}
    for number in range(MOST_KEYS - 1):
        for name, members in kinds.items():
            made = replace(WANTED, key_id=f"{number} {name}", digest=bytes(32), **members)
            processes.table.rows[made.key_id] = made
    await processes.here.load()
    assert not processes.here.is_full("default")
    await processes.here.create(WANTED)
    assert processes.here.is_full("default")


async def test_every_look_up_compares_the_same() -> None:
    """Two digests, whether the key is there, has ended, or has an earlier text."""
    compared: list[int] = []

    def is_equal(one: bytes, other: bytes) -> bool:
        compared.append(len(one) + len(other))
        return one == other

    processes = Processes()
    ring = KeyRing(table=processes.table, clock=processes.clock, is_equal=is_equal)
    key, text = await ring.create(WANTED)
    rotated = await ring.rotate(key.key_id, 60_000)
    assert rotated is not None
    ended, gone = await ring.create(WANTED)
    await ring.revoke(ended.key_id)
    for given in (text, rotated[1], gone, write_key("0" * 16, "x" * 43), write_key(key.key_id, "x" * 43)):
        compared.clear()
        ring.find(given)
        assert compared == [64, 64], given


async def test_a_session_holds_in_every_process_and_ends_with_its_key() -> None:
    """Also one that begins later, as after a restart; a new text ends it when the overlap is over."""
    processes = Processes()
    key, text = await processes.make()
    session = processes.here.write_session(text, session_of(key))
    assert session is not None
    restarted = KeyRing(table=processes.table, clock=processes.clock)
    await restarted.load()
    for ring in (processes.here, processes.there, restarted):
        assert ring.read_session(session) == (key, 2_000_000)
    await processes.here.rotate(key.key_id, 1_000)
    await processes.there.look()
    assert processes.there.read_session(session) is not None
    earlier = processes.here.find(text)
    assert earlier is not None
    during = processes.here.write_session(text, session_of(earlier))
    assert during is not None
    assert processes.there.read_session(during) is not None
    processes.clock.advance(1_001)
    assert [processes.there.read_session(one) for one in (session, during)] == [None, None]


async def test_a_session_is_over_at_its_moment_and_when_its_key_is_revoked() -> None:
    """The key is looked up with each request."""
    processes = Processes()
    key, text = await processes.make()
    short, long = (processes.here.write_session(text, session_of(key, end)) for end in (1_000_500, 2_000_000))
    assert short is not None
    assert long is not None
    processes.clock.advance(500)
    assert processes.here.read_session(short) is None
    assert processes.here.read_session(long) is not None
    await processes.there.revoke(key.key_id)
    await processes.here.look()
    assert processes.here.read_session(long) is None


@pytest.mark.parametrize("is_of_settings", [True, False])
async def test_a_session_that_is_ended_ends_everywhere(is_of_settings: bool) -> None:
    """Signed out or at its moment, with what waits in it; others of its key go on, also after a restart."""
    processes = Processes()
    made, _ = await processes.make()
    key = replace(made, key_id="") if is_of_settings else made
    ended: list[str] = []

    async def wait(session: str, end: int) -> None:
        with contextlib.suppress(TimeoutError):
            async with processes.there.watching(caller_of(key, session, end)):
                await asyncio.get_running_loop().create_future()
        ended.append(session)

    ends = {"out": 1_900_000, "short": 1_000_500, "other": 1_900_000}
    waiting = [asyncio.ensure_future(wait(*one)) for one in ends.items()]
    await asyncio.sleep(0)
    processes.table.is_down = True
    with pytest.raises(StoreUnavailable):
        await processes.here.end_session(key.key_id, "out", ends["out"])
    processes.table.is_down = False
    await processes.here.end_session(key.key_id, "out", ends["out"])
    assert (processes.here.has_ended(key.key_id, "out"), ended) == (True, [])
    await processes.there.look()
    await settle(lambda: ended == ["out"])
    processes.clock.advance(500)
    await processes.there.look()
    await settle(lambda: ended == ["out", "short"])
    restarted = KeyRing(table=processes.table, clock=processes.clock)
    await restarted.load()
    await restarted.end_session(key.key_id, "third", ends["out"])
    assert [restarted.has_ended(key.key_id, one) for one in ("out", "third", "other")] == [True, True, False]
    assert not restarted.has_ended("another", "out")
    waiting[2].cancel()


async def test_two_processes_end_the_first_sessions_of_the_settings_key() -> None:
    """The row that has them is no key: none is needed for it, listed, found, rotated or read."""
    processes = Processes()
    await processes.here.end_session("", "here", 2_000_000)
    await processes.there.end_session("", "there", 2_000_000)
    await processes.here.look()
    for ring in (processes.here, processes.there):
        assert ring.has_ended("", "here")
        assert ring.has_ended("", "there")
        assert not ring.is_used
        assert (ring.list("default"), ring.list(""), ring.tenant_like("team")) == ([], [], None)
        assert (ring.read(OF_SETTINGS), ring.get(OF_SETTINGS, 0), await ring.rotate(OF_SETTINGS, 0)) == (
            None,
        ) * 3
        assert await ring.revoke(OF_SETTINGS) is None


async def test_who_can_read_the_table_writes_no_session() -> None:
    """What is stored seals it, and does not give its proof; who has one cannot prolong it."""
    processes = Processes()
    key, text = await processes.make()
    (stored,) = processes.table.rows.values()
    for proof in (b"", stored.digest, stored.digest[:32], stored.digest[32:]):
        for seal in (stored.digest, stored.digest[:32], stored.digest[32:], b""):
            forged = SessionSeal(key=seal).write(replace(session_of(key), proof=proof))
            assert processes.here.read_session(f"{key.key_id}.{forged}") is None
    session = processes.here.write_session(text, session_of(key, 1_000_500))
    assert session is not None
    key_id, version, body, signature = session.split(".")
    longer = SessionSeal(key=b"").write(session_of(key)).split(".")[1]
    for changed in (
        f"{key_id}.{version}.{longer}.{signature}",
        f"{version}.{body}.{signature}",
        f"0.{session}",
    ):
        assert processes.here.read_session(changed) is None
    assert read_key(text)[1] not in session  # type: ignore[index]


def test_each_role_includes_those_before_it() -> None:
    """Viewer, operator, editor, admin."""
    roles = list(Role)
    assert roles == ["viewer", "operator", "editor", "admin"]
    for rank, role in enumerate(roles):
        assert [role.includes(other) for other in roles] == [other <= rank for other in range(len(roles))]


KEY = b"the key of the service"
SESSION = Session("default", Role.EDITOR, "Ünï ✓", 1_000)
SEAL = SessionSeal(key=KEY)


def test_what_was_written_is_read_everywhere() -> None:
    """By another process with the same key, too; the text fits into a cookie."""
    text = SEAL.write(SESSION)
    assert SessionSeal(key=KEY).read(text, now=999) == SESSION
    assert set(text) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
    assert len(text) < 200
    # At its moment, and with the key
    text = SEAL.write(SESSION)
    assert SEAL.read(text, now=1_000) is None
    assert SessionSeal(key=KEY + b"2").read(text, now=0) is None
    # The seal has a key of its own, so that no other signature of the key is a session
    forged = SessionSeal(key=b"")
    assert forged.write(SESSION) != SEAL.write(SESSION)


def test_any_other_letter_is_refused() -> None:
    """Each place of the text, changed to another letter of the alphabet; also what is cut or longer."""
    text = SEAL.write(SESSION)
    for place, letter in enumerate(text):
        other = "A" if letter != "A" else "B"
        assert SEAL.read(text[:place] + other + text[place + 1 :], now=0) is None, place
    for changed in (text[:-1], text + "A", text + "=", f" {text}", text.upper(), f"{text}.{text}"):
        assert SEAL.read(changed, now=0) is None


@each_row("text", ["", ".", "..", "1.", "1..", "1.e30.", "é", "\x00", "a" * (LONGEST + 1), "." * 500])
def test_what_is_no_session_is_none(text: str) -> None:
    """No text raises."""
    assert SEAL.read(text, now=0) is None


def fail(limit: WrongKeys, address: str, times: int, now: int = 0) -> None:
    for _ in range(times):
        limit.fail(address, now)


def test_an_address_waits_for_the_end_of_its_minute() -> None:
    """After ten failures; others go on."""
    limit = WrongKeys()
    fail(limit, "192.0.2.1", PER_ADDRESS - 1, now=5)
    assert limit.wait("192.0.2.1", 10) == 0
    limit.fail("192.0.2.1", 10)
    assert limit.wait("192.0.2.1", 1_005) == WINDOW_MS - 1_000
    assert limit.wait("192.0.2.2", 1_005) == 0
    assert limit.wait("192.0.2.1", WINDOW_MS + 5) == 0
    limit.fail("192.0.2.1", WINDOW_MS + 5)
    assert limit.wait("192.0.2.1", WINDOW_MS + 6) == 0
    # Who had the key begins anew: a person who mistypes is not kept waiting the next time
    limit = WrongKeys()
    fail(limit, "192.0.2.1", PER_ADDRESS - 1)
    limit.succeed("192.0.2.1")
    fail(limit, "192.0.2.1", PER_ADDRESS - 1)
    assert limit.wait("192.0.2.1", 1) == 0
    limit.succeed("192.0.2.9")
    # One caller has one count, whichever of its IPv6 addresses it takes, in whichever form IPv4 comes
    limit = WrongKeys()
    for last in range(PER_ADDRESS):
        limit.fail(f"2001:db8::{last:x}:1", 0)
    assert limit.wait("2001:db8::ffff:2", 1) > 0
    assert limit.wait("2001:db8:0:1::1", 1) == 0
    for count in range(PER_ADDRESS):
        limit.fail(("::ffff:192.0.2.1", f"192.0.2.1:{count + 1}", "[::ffff:c000:201]:80")[count % 3], 0)
    assert limit.wait("192.0.2.1", 1) > 0


def test_many_addresses_meet_the_limit_of_all() -> None:
    """And no more of them are kept than the limit of memory says."""
    limit = WrongKeys()
    for number in range(IN_ALL):
        limit.fail(f"198.51.{number // 256}.{number % 256}", 0)
    assert limit.wait("203.0.113.1", 1) == WINDOW_MS - 1
    assert limit.wait("203.0.113.1", WINDOW_MS) == 0
    own = WrongKeys()
    fail(own, "a name", PER_ADDRESS)
    for number in range(MOST_ADDRESSES):
        own.fail(f"198.{number // 256}.0.{number % 256}", WINDOW_MS)
    assert own.wait("a name", 1) == 0 or own.wait("a name", 1) == own.wait("another", 1)
