"""The address under which others reach a service that listens on all addresses of its machine."""

import fcntl
import ipaddress
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress

# Of documentation networks: a route to them is the one to everywhere, and nothing is sent.
_ELSEWHERE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
_ANY_PORT = 9
_SIOCGIFADDR = 0x8915


def is_wildcard(host: str) -> bool:
    """Whether a socket bound to `host` listens on all addresses of the machine."""
    try:
        return ipaddress.ip_address(host or "::").is_unspecified
    except ValueError:
        return False


def find_own_address(listener: socket.socket) -> str | None:
    """The address by which this machine reaches others, of a family that `listener` serves; None: none.

    That of the route to everywhere, else that of a network interface. No packet is sent.
    """
    return next(_candidates(_families(listener)), None)


def _families(listener: socket.socket) -> list[socket.AddressFamily]:
    if listener.family == socket.AF_INET:
        return [socket.AF_INET]
    only_6 = listener.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
    return [socket.AF_INET6] if only_6 else [socket.AF_INET, socket.AF_INET6]


def _candidates(families: list[socket.AddressFamily]) -> Iterator[str]:
    found = [_source_of_route(family) for family in families]
    if socket.AF_INET in families:
        found += [_address_of_interface(name) for _, name in socket.if_nameindex()]
    for address in found:
        if address is not None and not ipaddress.ip_address(address).is_loopback:
            yield address


def _source_of_route(family: socket.AddressFamily) -> str | None:
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((_ELSEWHERE[family], _ANY_PORT))
        return str(probe.getsockname()[0])
    return None


def _address_of_interface(name: str) -> str | None:
    """Its IPv4 address, on Linux; None: it has none, or this system says it in another way."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
        return socket.inet_ntoa(answer[20:24])
    return None
