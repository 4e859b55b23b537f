"""What a new life gets from its host (SPEC section 5)."""

from scheduler_service.hosts.identity import IDENTITIES_AT_ONCE, KEY_BYTES, IdentitySource


def test_no_two_lives_are_alike() -> None:
    """Uids are 32 hex digits, keys random, also beyond one helping of chance."""
    new_life = IdentitySource()
    new_identity = [new_life() for _ in range(3 * IDENTITIES_AT_ONCE)]
    assert len({uid for uid, _ in new_identity}) == len({key for _, key in new_identity}) == len(new_identity)
    assert all(len(uid) == 32 and int(uid, 16) >= 0 and len(key) == KEY_BYTES for uid, key in new_identity)


def test_a_clock_may_begin_at_zero() -> None:
    """As that of a machine without a battery does."""
    new_life = IdentitySource(now=lambda: 0)
    assert new_life()[0].startswith("0" * 12)
    assert len(new_life()[0]) == 32


def test_uids_begin_with_the_moment() -> None:
    """Lives that begin one after the other are in order: their rows lie together."""
    moments = iter(range(1_700_000_000_000_000_000, 1_700_000_001_000_000_000, 10_000_000))
    new_life = IdentitySource(now=lambda: next(moments))
    uids = [new_life()[0] for _ in range(100)]
    assert uids == sorted(uids)
    assert int(uids[0][:12], 16) == 1_700_000_000_000
