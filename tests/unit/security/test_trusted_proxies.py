"""Whom a proxy passes on: the nearest address that is no listed proxy, and a user by its name."""

from scheduler_service.domain.keys_and_roles import Role
from scheduler_service.security.callers import Caller
from scheduler_service.security.trusted_proxies import MOST_HOPS, Proxies, find_widest
from tests.rows import each_row

NETWORKS = ["10.0.0.1", "10.1.0.0/16", "fd00::/8"]
LISTED = Proxies(NETWORKS, user_header="X-User", role=Role.OPERATOR, tenant="shop")


@each_row(
    ("peer", "forwarded", "origin"),
    [
        ("10.0.0.1", ["192.0.2.7"], "192.0.2.7"),
        ("10.0.0.1", ["198.51.100.1, 192.0.2.7, 10.1.2.3"], "192.0.2.7"),
        ("10.0.0.1", ["198.51.100.1", "192.0.2.7"], "192.0.2.7"),
        ("::ffff:10.0.0.1", ["192.0.2.7"], "192.0.2.7"),
        ("fd00::1", ["2001:db8::5"], "2001:db8::5"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["10.1.0.2"], "10.1.0.2"),
        ("10.0.0.1", ["unknown"], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1, 192.0.2.7:4711"], "192.0.2.7"),
        ("10.0.0.1", ["::ffff:192.0.2.7, 10.1.2.3:80, [::ffff:10.1.2.4]:80"], "192.0.2.7"),
        ("[fd00::1]:80", ["[2001:db8::5]:80"], "2001:db8::5"),
        ("fd00::1%eth0", ["[2001:DB8::5]"], "2001:db8::5"),
        ("10.0.0.1", ["192.0.2.7:", "192.0.2.7:port", "[192.0.2.7", "192.0.2.7]:80"], "10.0.0.1"),
        ("10.0.0.1", ["192.0.2.7, unknown, 10.1.0.9"], "10.1.0.9"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("192.0.2.1", ["198.51.100.1"], "192.0.2.1"),
        ("not an address", ["198.51.100.1"], "not an address"),
        ("10.0.0.1", [", ".join(["10.1.0.1"] * (MOST_HOPS + 1_000))], "10.1.0.1"),
    ],
)
def test_what_others_have_written_counts_nothing(peer: str, forwarded: list[str], origin: str) -> None:
    """Only what a listed one has added to the header, from its end on."""
    assert LISTED.origin_of(peer, forwarded) == origin


@each_row(
    ("name", "user"),
    [("anna@example.org", True), (" Anna ", True), ("", False), ("a\nb", False), ("a" * 129, False)],
)
def test_a_user_has_a_name(name: str, user: bool) -> None:
    """And role and tenant of the settings."""
    found = LISTED.user(name)
    assert found == (Caller("shop", Role.OPERATOR, name=name.strip()) if user else None)


@each_row(
    ("addresses", "widest"),
    [
        (["10.0.0.0/8", "fc00::/7", "fd00::/8", "2001:db8::/32", "192.0.2.1"], None),
        (["::ffff:10.0.0.0/104"], None),
        (["0.0.0.0/0"], "0.0.0.0/0"),
        (["192.0.2.1", "::/0"], "::/0"),
        (["::ffff:0.0.0.0/96"], "0.0.0.0/0"),
        (["64.0.0.0/7"], "64.0.0.0/7"),
        (["2000::/3"], "2000::/3"),
        (["10.0.0.0/8", "11.0.0.0/8"], "10.0.0.0/7"),
    ],
)
def test_what_is_more_than_a_company_has(addresses: list[str], widest: str | None) -> None:
    """Mapped networks are those of IPv4, and neighbours count together."""
    assert find_widest(addresses) == widest


def test_by_default_nobody_is_believed() -> None:
    """Neither addresses nor users."""
    proxies = Proxies()
    assert not proxies.is_used
    assert proxies.user_header is None
    assert proxies.origin_of("127.0.0.1", ["192.0.2.7"]) == "127.0.0.1"
