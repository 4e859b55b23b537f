"""What the egress policy says of a URL before any request (SPEC section 9)."""

from scheduler_service.transport.guard import EgressPolicy
from scheduler_service.transport.literal_targets import judge_literal
from tests.rows import each_row

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
FINE = ("http://example.com", "https://93.184.216.34", "http://[2606:2800:220:1::1]", "http://intranet")
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


@each_row("url", FINE)
def test_a_public_address_or_a_name_is_fine(url: str) -> None:
    """A name is not looked up."""
    assert judge_literal(EgressPolicy(allow=(), deny=()), url) is None


@each_row("url", ["http://93.184.216.34", "https://denied.example.com"])
def test_what_is_denied_is_refused(url: str) -> None:
    """`egress.deny` wins."""
    assert judge_literal(EVERYTHING, url) is not None
