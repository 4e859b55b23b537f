"""Roles include those before them (SPEC section 14)."""

from scheduler_service.security.callers import (
    IN_ALL,
    LONGEST,
    MOST_ADDRESSES,
    PER_ADDRESS,
    WINDOW_MS,
    Role,
    Session,
    SessionSeal,
    WrongKeys,
)
from tests.rows import each_row


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
