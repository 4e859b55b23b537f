"""The socket on which a service listens, and the address under which it is reached."""

import contextlib
import socket

from scheduler_service.app.own_address import find_own_address, is_wildcard
from scheduler_service.ports.log import Log
from scheduler_service.settings import Settings, SettingsError

BACKLOG = 2048
UNSENT_BYTES = 128 << 10
"""So much of an answer the system keeps beyond what is on its way to the caller.

Of itself it keeps megabytes for each caller who does not read, and who reads slowly seems not to read.
"""


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
