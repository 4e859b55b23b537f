"""The address of a service that listens on all addresses of its machine (SPEC section 5)."""

import ipaddress
import socket
from collections.abc import Iterator

import pytest

from scheduler_service.app.listener import address_of, find_own_address, is_wildcard, listen
from scheduler_service.settings import load_settings
from tests.rows import each_row

WILDCARDS = ["0.0.0.0", "::"]


@pytest.fixture(params=WILDCARDS)
def listener(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    """A socket on all addresses, where this machine has addresses of the family."""
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((request.param, 0))
    except OSError as error:
        pytest.skip(f"this machine has no {family.name}: {error}")
    with listen(request.param, 0) as listening:
        yield listening


@each_row(
    ("host", "is_one"),
    [*((one, True) for one in WILDCARDS), ("127.0.0.1", False), ("::1", False), ("localhost", False)],
)
def test_a_wildcard_is_recognised(host: str, is_one: bool) -> None:
    """The addresses that stand for all; a name is none."""
    assert is_wildcard(host) is is_one


def test_what_is_found_reaches_the_listener(listener: socket.socket) -> None:
    """It is an address of this machine that others can use, or there is none."""
    found = find_own_address(listener)
    if found is None:
        return
    address = ipaddress.ip_address(found)
    assert not address.is_loopback
    assert not address.is_unspecified
    with socket.create_connection((found, listener.getsockname()[1]), timeout=10):
        pass


def test_the_start_says_which_address_it_takes(listener: socket.socket) -> None:
    """It is in the log, whether it was found or not."""
    told: list[tuple[str, object]] = []
    settings = load_settings({"server.host": listener.getsockname()[0]}, {}).settings
    port = listener.getsockname()[1]
    served = address_of(settings, listener, log=lambda event, /, **keys: told.append((event, keys["url"])))
    found = find_own_address(listener)
    shown = f"[{found}]" if found and ":" in found else found or "127.0.0.1"
    assert served == f"http://{shown}:{port}"
    assert told == [("address_assumed" if found else "address_not_found", served)]


def test_a_setting_or_an_address_of_its_own_is_taken_as_it_is() -> None:
    """Nothing is searched for, and nothing said."""

    def refuse(event: str, /, **keys: object) -> None:
        raise AssertionError(event)

    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert address_of(load_settings({}, {}).settings, listener, log=refuse) == f"http://127.0.0.1:{port}"
    with listen("0.0.0.0", 0) as listener:
        given = load_settings(
            {"server.host": "0.0.0.0", "server.external_url": "https://s.test"}, {}
        ).settings
        assert address_of(given, listener, log=refuse) == "https://s.test"
