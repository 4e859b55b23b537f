"""How often wrong keys may be tried: by each address, and by all together (SPEC section 14)."""

from collections import OrderedDict
from dataclasses import dataclass
from ipaddress import ip_network

from scheduler_service.security.trusted_proxies import read_address

WINDOW_MS = 60_000
PER_ADDRESS = 10
IN_ALL = 100
MOST_ADDRESSES = 1_000


@dataclass(slots=True)
class _Window:
    began: int
    failures: int = 0


class WrongKeys:
    """Counts failures in windows of a minute. Times are in ms, of a clock that is never set back.

    Of an IPv6 address the first 64 bits count: one caller has all the others. At most 1,000 addresses are
    kept; whoever uses more of them meets the limit of all together.
    """

    def __init__(self) -> None:
        self._by_address: OrderedDict[str, _Window] = OrderedDict()
        self._all = _Window(0)

    def wait(self, address: str, now: int) -> int:
        """For how many ms this address may not try; 0: it may."""
        own = self._by_address.get(_source(address))
        waits = [_left(self._all, IN_ALL, now)]
        if own is not None:
            waits.append(_left(own, PER_ADDRESS, now))
        return max(waits)

    def fail(self, address: str, now: int) -> None:
        """One more failure."""
        source = _source(address)
        window = self._by_address.setdefault(source, _Window(now))
        for one in (window, self._all):
            if now - one.began >= WINDOW_MS:
                one.began, one.failures = now, 0
            one.failures += 1
        self._by_address.move_to_end(source)
        if len(self._by_address) > MOST_ADDRESSES:
            self._by_address.popitem(last=False)

    def succeed(self, address: str) -> None:
        """The failures of this address are forgotten: it had the key after all."""
        self._by_address.pop(_source(address), None)


def _left(window: _Window, most: int, now: int) -> int:
    return max(window.began + WINDOW_MS - now, 0) if window.failures >= most else 0


def _source(address: str) -> str:
    known = read_address(address)
    if known is None:
        return address
    return str(known) if known.version == 4 else str(ip_network((known, 64), strict=False))
