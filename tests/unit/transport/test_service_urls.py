"""What `service:` URLs reach (SPEC section 9)."""

import pytest

from scheduler_service.transport.errors import NoInstance, NotBack, RefusedTarget, TransportError
from scheduler_service.transport.sender import write_url
from scheduler_service.transport.service_urls import Directory, ServiceUrls
from tests.rows import each_row
from tests.static_directory import StaticDirectory
from tests.unit.transport.servers import vouch_for_all


def located_by(directory: Directory) -> ServiceUrls:
    """Services alone, with neither owner nor gateway."""
    return ServiceUrls(directory=directory, owner_url=None, gateway=None, vouched=vouch_for_all)


SERVICES = ServiceUrls(
    directory=StaticDirectory(
        addresses={"oa": "http://10.0.0.7:8080/base/", "Mixed.Case-1": "https://x.test"}
    ),
    owner_url="http://127.0.0.1:8000",
    gateway="http://gw.test/in",
    vouched=vouch_for_all,
)
EMPTY = ServiceUrls(
    directory=StaticDirectory(addresses={}), owner_url=None, gateway=None, vouched=vouch_for_all
)


@each_row(
    ("url", "reached"),
    [
        ("service://oa/a/b?c=d", "http://10.0.0.7:8080/base/a/b?c=d"),
        ("SERVICE://oa", "http://10.0.0.7:8080/base/"),
        ("service://Mixed.Case-1/x", "https://x.test/x"),
        ("service:/main/api", "http://127.0.0.1:8000/main/api"),
        ("service://{serviceName}/main/api", "http://127.0.0.1:8000/main/api"),
        ("service://{serviceGateway}/oa/x", "http://gw.test/in/oa/x"),
    ],
)
def test_forms(url: str, reached: str) -> None:
    """A name, the owner's short form, and the two placeholders."""
    assert write_url(SERVICES.locate(url).target) == reached


@each_row(
    ("url", "setting"),
    [
        ("service://nobody/x", "services.static"),
        ("service:/x", "server.external_url"),
        ("service://{serviceGateway}/x", "services.gateway"),
    ],
)
def test_unknown_names_the_setting(url: str, setting: str) -> None:
    """A service without an address is `no_instance`, and the message says what to set."""
    with pytest.raises(NoInstance, match=setting):
        EMPTY.locate(url)


class Returning:
    """A directory whose service comes back when it was asked three times."""

    def __init__(self, *, waits: int = 30_000) -> None:
        self.asked = 0
        self.waits = waits

    def address(self, name: str) -> str | None:
        self.asked += 1
        return f"http://{name}.test" if self.asked == 3 else None

    def wait(self, name: str) -> int:
        return self.waits


def test_who_may_come_back_is_told_apart() -> None:
    """So it is waited for; nobody else is."""
    services = located_by(Returning())
    for _ in range(2):
        with pytest.raises(NotBack):
            services.locate("service://oa/x")
    assert write_url(services.locate("service://oa/x").target) == "http://oa.test/x"
    gone = ServiceUrls(directory=Returning(waits=0), owner_url=None, gateway=None, vouched=vouch_for_all)
    with pytest.raises(NoInstance) as raised:
        gone.locate("service://oa/x")
    assert not isinstance(raised.value, NotBack)


@each_row(
    "url",
    ["service://oa/../admin", "service://oa/%2e%2E/x", "service://oa/x/..", "service://a@b/x", "service://",
     "service://oa:80/x", "service://127.0.0.1/x", "service://[::1]/x", "service:oa/x", "service://oa/a b",
     "service://{other}/x", "service://oa\\x/"],
)  # fmt: skip
def test_refused(url: str) -> None:
    """Dot segments, addresses in place of a name, ports and user information are refused."""
    with pytest.raises(RefusedTarget):
        SERVICES.locate(url)


def test_a_name_is_never_an_address() -> None:
    """A directory is not even asked for a name that could be an address."""
    services = ServiceUrls(
        directory=StaticDirectory(addresses={"10.0.0.1": "http://x.test"}),
        owner_url=None,
        gateway=None,
        vouched=vouch_for_all,
    )
    with pytest.raises(TransportError):
        services.locate("service://10.0.0.1/")


def test_who_vouches_for_what_is_reached() -> None:
    """The settings for the owner and the gateway; for a service's own address, whoever is asked about it."""
    asked: list[str] = []

    def vouch(address: str) -> bool:
        asked.append(address)
        return address == "http://given.test"

    services = ServiceUrls(
        directory=StaticDirectory(addresses={"oa": "http://registered.test"}),
        owner_url="http://127.0.0.1:8000",
        gateway="http://gw.test/in",
        vouched=vouch,
    )
    assert services.locate("service:/x").trusted
    assert services.locate("service://{serviceGateway}/x").trusted
    assert not services.locate("service://oa/x").trusted
    assert services.locate("service://oa/x", "http://given.test").trusted
    assert not services.locate("service://oa/x", "http://other.test").trusted
    assert asked == ["http://registered.test", "http://given.test", "http://other.test"]
