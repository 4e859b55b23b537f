"""The socket on which a service listens, and the address under which others reach it."""

import contextlib
import fcntl
import ipaddress
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress

from scheduler_service.ports.log import Log
from scheduler_service.settings import Settings, SettingsError

BACKLOG = 2048
UNSENT_BYTES = 128 << 10
"""So much of an answer the system keeps beyond what is on its way to the caller.

Of itself it keeps megabytes for each caller who does not read, and who reads slowly seems not to read.
"""
# Of documentation networks: a route to them is the one to everywhere, and nothing is sent.
_ELSEWHERE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
_ANY_PORT = 9
_SIOCGIFADDR = 0x8915


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises SettingsError that names the address and what is in the way."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with contextlib.suppress(AttributeError, OSError):  # on Linux what is accepted has it too
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
    try:
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise SettingsError(
            f"cannot listen on {host}:{port} ({reason}); stop what uses it, or choose another --port"
        ) from error
    listener.listen(BACKLOG)
    listener.setblocking(False)
    return listener


def address_of(settings: Settings, listener: socket.socket, *, log: Log) -> str:
    """The base address under which the service is reached.

    Where it listens on all addresses and no setting names one, the log says which one is taken.
    """
    if settings.server.external_url:
        return settings.server.external_url
    host, port = listener.getsockname()[:2]
    if not is_wildcard(host):
        return _write_base(host, port)
    found = find_own_address(listener)
    served = _write_base(found or "127.0.0.1", port)
    if found:
        log("address_assumed", url=served, note="if targets need another one, set server.external_url")
    else:
        log("address_not_found", url=served, note="only this machine can report: set server.external_url")
    return served


def _write_base(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


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
