"""How often wrong keys may be tried (SPEC section 14)."""

from scheduler_service.security.wrong_keys import (
    IN_ALL,
    MOST_ADDRESSES,
    PER_ADDRESS,
    WINDOW_MS,
    WrongKeys,
)


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
