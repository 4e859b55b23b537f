"""The egress policy, as a pure decision."""

from ipaddress import ip_address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.wire import Answer, FaultKind
from scheduler_service.transport.egress_guard import EgressPolicy, judge_literal
from scheduler_service.transport.errors import PolicyError
from tests.rows import each_row
from tests.unit.transport.servers import OK, Stage, TableResolver, head_of, repeating, request

OPEN = EgressPolicy(allow=["0.0.0.0/0", "::/0"], deny=[])
DEFAULT = EgressPolicy(allow=[], deny=[])


def refuses(policy: EgressPolicy, text: str, host: str = "name.test") -> bool:
    return policy.refuse_address(host, ip_address(text)) is not None


@each_row(
    "text",
    ["169.254.169.254", "169.254.0.1", "fe80::1", "fd00:ec2::254", "100.100.100.200", "192.0.0.192",
     "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1",
     "::ffff:0:169.254.169.254", "::169.254.169.254", "64:ff9b:1::a9fe:a9fe", "64:ff9b:1:a9fe:a9:fe00::",
     "2001:0:a9fe:a9fe::1", "2001:0:808:808::5601:5601", "2001:db8::5efe:169.254.169.254",
     "2001:db8::200:5efe:169.254.169.254"],
)  # fmt: skip
def test_metadata_and_link_local_are_always_refused(text: str) -> None:
    """No setting opens metadata and link-local addresses (SPEC section 9)."""
    assert refuses(OPEN, text)
    assert refuses(EgressPolicy(allow=["name.test", text], deny=[]), text)


@each_row(
    "text",
    ["::ffff:127.0.0.1", "64:ff9b::10.0.0.1", "2002:c0a8:101::1", "2001:0:7f00:1::", "::127.0.0.1",
     "::ffff:0:127.0.0.1", "::ffff:0:10.0.0.1", "2606:4700::5efe:127.0.0.1", "2606:4700::200:5efe:10.0.0.1"],
)  # fmt: skip
def test_translated_forms_are_refused_whatever_the_settings(text: str) -> None:
    """A mapped or translated form of an address that is not public is refused even where that is allowed."""
    assert refuses(OPEN, text)


@each_row("text", ["127.0.0.1", "10.1.2.3", "100.64.0.1", "224.0.0.1", "240.0.0.1", "::1", "fd12::1"])
def test_private_ranges_need_an_entry(text: str) -> None:
    """Loopback, private, shared, multicast and reserved: refused, unless a block or the host is allowed."""
    assert refuses(DEFAULT, text)
    assert not refuses(OPEN, text)
    assert not refuses(EgressPolicy(allow=["name.test"], deny=[]), text)
    assert not refuses(EgressPolicy(allow=["*.test"], deny=[]), text)
    assert refuses(EgressPolicy(allow=["other.test", "*.name.test"], deny=[]), text)


@each_row("text", ["fd12::5efe:8.8.8.8", "fd12::200:5efe:8.8.8.8"])
def test_a_public_address_inside_opens_no_private_one(text: str) -> None:
    """The tunnel's own address is judged as well."""
    assert refuses(DEFAULT, text)


def test_deny_wins() -> None:
    """What both lists name is refused, also inside a translated form."""
    policy = EgressPolicy(
        allow=["10.0.0.0/8", "*.corp.test"], deny=["10.9.0.0/16", "bad.corp.test", "8.8.8.8"]
    )
    assert not refuses(policy, "10.1.0.1")
    assert refuses(policy, "10.9.0.1")
    assert refuses(policy, "8.8.8.8")
    assert refuses(policy, "::ffff:8.8.8.8")
    assert policy.refuse_name("bad.corp.test")
    assert policy.refuse_name("good.corp.test") is None
    mapped = EgressPolicy(allow=[], deny=["::ffff:8.8.4.0/120", "[::ffff:8.8.8.8]"])
    assert all(refuses(mapped, text) for text in ("8.8.4.1", "8.8.8.8"))


def test_loopback_names_follow_loopback() -> None:
    """`localhost` and its like are refused by name, unless loopback or the name is allowed."""
    for name in ("localhost", "a.localhost", "ip6-loopback"):
        assert DEFAULT.refuse_name(name)
        assert EgressPolicy(allow=["127.0.0.0/8"], deny=[]).refuse_name(name) is None
        assert EgressPolicy(allow=[name], deny=[]).refuse_name(name) is None
        assert EgressPolicy(allow=["10.0.0.0/8"], deny=[]).refuse_name(name)


@each_row("entry", ["10.0.0.0/33", "10.0.0.1/8", "http://x", "a*b", "*", "", "1.2.3", "x y"])
def test_wrong_entries_are_refused_by_name(entry: str) -> None:
    """An entry that cannot be read stops the start, and names its setting."""
    with pytest.raises(PolicyError, match=r"egress\.deny"):
        EgressPolicy(allow=[], deny=[entry])


@settings(deadline=None)
@given(st.ip_addresses(v=4))
def test_wrapping_never_opens(address: object) -> None:
    """What is refused bare is refused in every translated form."""
    number = int(address)  # type: ignore[call-overload]
    if refuses(DEFAULT, str(address)):
        forms = (0xFFFF << 32, 0xFFFF << 48, 0x64FF9B << 96, 0x2606 << 112 | 0x5EFE << 32)
        for wrapped in (*(form | number for form in forms), 0x2002 << 112 | number << 80):
            assert DEFAULT.refuse_address("name.test", ip_address(wrapped.to_bytes(16)))


NEVER = (
    "http://169.254.169.254",
    "https://169.254.1.1:8443",
    "http://[fe80::1]",
    "http://100.100.100.200",
    "http://[::ffff:10.0.0.1]",
    "http://[64:ff9b::a00:1]",
    "http://metadata.google.internal",
    "http://0x7f000001",
    "http://2130706433",
    "http://0177.0.0.1",
    "http://127.1",
    "http://user@example.com",
    "http://example.com:0",
)
UNLESS_ALLOWED = (
    "http://10.0.0.7:8080",
    "http://192.168.1.1",
    "http://[fc00::1]",
    "http://localhost",
    "http://[::1]",
)
EVERYTHING = EgressPolicy(
    allow=["0.0.0.0/0", "::/0", "*.example.com"], deny=["93.184.216.34", "denied.example.com"]
)


@each_row("url", NEVER)
def test_some_are_refused_whatever_the_settings_say(url: str) -> None:
    """Metadata, link-local and translated addresses, odd spellings, user information."""
    assert judge_literal(EVERYTHING, url) is not None


@each_row("url", UNLESS_ALLOWED)
def test_others_unless_they_are_allowed(url: str) -> None:
    """Loopback and private addresses, and names of loopback."""
    assert judge_literal(EgressPolicy(allow=(), deny=()), url) is not None
    assert judge_literal(EVERYTHING, url) is None


async def test_names_connect_to_the_judged_address_alone(stage: Stage) -> None:
    """One refused address refuses the name; one that turns is judged anew (SPEC section 9)."""
    server = await stage.server(repeating(OK))
    resolver = TableResolver(
        {"mixed.test": [["127.0.0.1", "10.0.0.1"]], "turns.test": [["127.0.0.1"], ["10.0.0.1"]]}
    )
    sender = stage.sender(resolver=resolver, idle_seconds=0.0)
    mixed = await sender.send(request(f"http://mixed.test:{server.port}/"))
    assert mixed.kind is FaultKind.EGRESS
    assert isinstance(await sender.send(request(f"http://turns.test:{server.port}/")), Answer)
    assert head_of(server.requests[0])["host"] == f"turns.test:{server.port}"
    turned = await sender.send(request(f"http://turns.test:{server.port}/"))
    assert turned.kind is FaultKind.EGRESS
    assert resolver.asked == ["mixed.test", "turns.test", "turns.test"]


async def test_an_unknown_name_is_a_failed_connection(stage: Stage) -> None:
    """A name without an address is `connect`, also when the answer is empty (SPEC section 9)."""
    sender = stage.sender(resolver=TableResolver({"empty.test": [[]]}))
    for host in ("empty.test", "missing.test"):
        outcome = await sender.send(request(f"http://{host}/hush"))
        assert outcome.kind is FaultKind.CONNECT
        assert host in outcome.message
        assert "hush" not in outcome.message
