"""Which calls an instance takes: those that are signed, or those from its own machine (SPEC section 14)."""

import ipaddress
import logging

from client_sdk.errors import SignatureRefused
from client_sdk.signing import Verifier
from client_sdk.target.messages import InboundCall

LOG = logging.getLogger("client_sdk")
PASSED_ON = ("forwarded", "x-forwarded-for", "x-real-ip", "origin")
"""Headers of a call that a proxy or a web page makes, which may be for somebody elsewhere."""
ALONE = (
    "%s takes calls from this machine alone below %s: they are not signed. Give Service a verifier and "
    "sign for calls from elsewhere, or allow_unsigned=True where an ingress guards that port"
)
OPEN = (
    "the jobs of %s are open: allow_unsigned lets whoever reaches its port call them below %s, so let nobody "
    "but the scheduler reach it"
)
REFUSED = (
    "calls that are not signed are taken from this machine alone, directly; give Service a verifier, or "
    "allow_unsigned=True where an ingress guards this port"
)


class Admission:
    """Judges calls. Without a `verifier` those from loopback are taken, by `allow_unsigned` all.

    A call that a proxy, a sidecar or a web page passes on is none from loopback.
    """

    def __init__(self, *, verifier: Verifier | None, allow_unsigned: bool = False) -> None:
        self._verifier = verifier
        self._allow_unsigned = allow_unsigned
        self._has_warned = False

    def describe(self, name: str, prefix: str) -> None:
        """Says in the log who may call the service `name`, unless its calls are signed."""
        if self._verifier is None:
            LOG.warning(OPEN if self._allow_unsigned else ALONE, name, prefix)

    def admit(self, call: InboundCall) -> str:
        """The id under which the call is signed; empty: it need not be. Raises SignatureRefused."""
        if self._verifier is not None:
            return self._verifier.accept(call.headers, call.body)
        if self._allow_unsigned or is_direct(call):
            return ""
        if not self._has_warned:
            self._has_warned = True
            LOG.warning("a call from %s was refused: %s", call.peer or "an unknown address", REFUSED)
        raise SignatureRefused(REFUSED)


def is_direct(call: InboundCall) -> bool:
    """Whether a program of this machine has made the call, as far as one can tell."""
    return is_loopback(call.peer) and not any(name in call.headers for name in PASSED_ON)


def is_loopback(peer: str) -> bool:
    """Whether this is an address of the machine itself."""
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
