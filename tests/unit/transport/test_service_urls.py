"""What `service:` URLs reach (SPEC section 9)."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from scheduler_service.domain.wire import Answer, FaultKind, OutboundRequest, Outcome
from scheduler_service.ports.sending import MayGo, always
from scheduler_service.transport.egress_guard import EgressPolicy, Trust
from scheduler_service.transport.errors import NoInstance, NotBack, RefusedTarget, TransportError
from scheduler_service.transport.sender import write_url
from scheduler_service.transport.service_urls import (
    Directory,
    InvocationDirectory,
    InvocationSender,
    ServiceUrls,
)
from tests.rows import each_row
from tests.static_directory import StaticDirectory
from tests.unit.transport.servers import Stage, answering, repeating, vouch_for_all


def located_by(directory: Directory) -> ServiceUrls:
    """Services alone, with neither owner nor gateway."""
    return ServiceUrls(directory=directory, owner_url=None, gateway=None, trust_of=vouch_for_all)


SERVICES = ServiceUrls(
    directory=StaticDirectory(
        addresses={"oa": "http://10.0.0.7:8080/base/", "Mixed.Case-1": "https://x.test"}
    ),
    owner_url="http://127.0.0.1:8000",
    gateway="http://gw.test/in",
    trust_of=vouch_for_all,
)
EMPTY = ServiceUrls(
    directory=StaticDirectory(addresses={}), owner_url=None, gateway=None, trust_of=vouch_for_all
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

    def signing(self, name: str) -> str:
        return ""

    def vouched(self, name: str) -> bool | None:
        return None


def test_who_may_come_back_is_told_apart() -> None:
    """So it is waited for; nobody else is."""
    services = located_by(Returning())
    for _ in range(2):
        with pytest.raises(NotBack):
            services.locate("service://oa/x")
    assert write_url(services.locate("service://oa/x").target) == "http://oa.test/x"
    gone = ServiceUrls(directory=Returning(waits=0), owner_url=None, gateway=None, trust_of=vouch_for_all)
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
        trust_of=vouch_for_all,
    )
    with pytest.raises(TransportError):
        services.locate("service://10.0.0.1/")


def test_who_vouches_for_what_is_reached() -> None:
    """The settings for the owner and the gateway; for a service's own address, whoever is asked about it."""
    asked: list[tuple[str, bool | None]] = []

    def vouch(address: str, noted: bool | None) -> Trust:
        asked.append((address, noted))
        return Trust.VOUCHED if noted or address == "http://given.test" else Trust.NONE

    services = ServiceUrls(
        directory=StaticDirectory(addresses={"oa": "http://registered.test"}),
        owner_url="http://127.0.0.1:8000",
        gateway="http://gw.test/in",
        trust_of=vouch,
    )
    assert services.locate("service:/x").trust is Trust.OWN
    assert services.locate("service://{serviceGateway}/x").trust is Trust.OWN
    assert not services.locate("service://oa/x").trust
    assert services.locate("service://oa/x", "http://given.test").trust
    assert not services.locate("service://oa/x", "http://other.test").trust
    assert services.locate("service://oa/x", "http://other.test", True).trust
    bases = [("http://registered.test", None), ("http://given.test", None), ("http://other.test", None)]
    assert asked == [*bases, ("http://other.test", True)]


UNDELIVERED = b'{"errorCode":"ERR_DIRECT_INVOKE","message":"failed to resolve address for nobody"}'


class Fixed:
    """Answers one thing."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.is_closed = False

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        return self.outcome

    async def close(self) -> None:
        self.is_closed = True


def test_what_settings_name_is_reached_there_all_else_by_the_sidecar() -> None:
    """A static address wins; every other name is an app id."""
    directory = InvocationDirectory(
        known=StaticDirectory(addresses={"billing": "http://10.0.0.7"}), http_port=3501
    )
    assert directory.address("billing") == "http://10.0.0.7"
    assert directory.address("orders") == "http://127.0.0.1:3501/v1.0/invoke/orders/method"


@each_row(
    ("url", "answer"),
    [
        ("service://orders/x", Answer(500, body=b'{"errorCode":"OTHER"}')),
        ("service://orders/x", Answer(500, body=b"not JSON")),
        ("service://orders/x", Answer(404, body=UNDELIVERED)),
        ("http://orders.test/x", Answer(500, body=UNDELIVERED)),
    ],
)
async def test_an_answer_of_the_target_passes(url: str, answer: Answer) -> None:
    """Status and body as they came, an error of the target too."""
    fixed = Fixed(answer)
    sender = InvocationSender(sender=fixed)
    assert await sender.send(OutboundRequest("POST", url, ())) is answer
    await sender.close()
    assert fixed.is_closed


WELL = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
HEADER = b"dapr-api-token"


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """Servers and senders of one test."""
    async with AsyncExitStack() as stack:
        yield Stage(stack)


def behind(http_port: int, known: dict[str, str] | None = None) -> InvocationDirectory:
    """Services behind a sidecar whose API wants a token."""
    return InvocationDirectory(
        known=StaticDirectory(addresses=known or {}), http_port=http_port, token="sesame"
    )


async def test_the_sidecar_is_shown_its_token(stage: Stage) -> None:
    """Once: a token of the step's own headers would be taken for it."""
    daprd = await stage.server(repeating(WELL))
    directory = behind(daprd.port)
    sender = stage.sender(directory=directory, sidecar=directory)
    for base in ("", directory.address("orders") or ""):
        request = OutboundRequest("POST", "service://orders/x", (("Dapr-Api-Token", "mine"),), base=base)
        assert isinstance(await sender.send(request), Answer)
    for sent in daprd.requests:
        assert sent.startswith(b"POST /v1.0/invoke/orders/method/x HTTP/1.1\r\n")
        assert sent.lower().count(HEADER) == 1
        assert b"\r\ndapr-api-token: sesame\r\n" in sent


async def test_nobody_else_is_shown_the_token(stage: Stage) -> None:
    """Neither a service with an address of its own nor a plain URL, even one of the sidecar."""
    other = await stage.server(repeating(WELL))
    directory = behind(other.port, {"billing": other.url})
    sender = stage.sender(directory=directory, sidecar=directory)
    for url, base in (
        ("service://billing/x", ""),
        ("service://orders/x", f"{directory.base}/billing/method"),
        (f"{directory.base}/orders/method/x", ""),
    ):
        assert isinstance(await sender.send(OutboundRequest("GET", url, (), base=base)), Answer)
    assert len(other.requests) == 3
    assert not any(HEADER in sent.lower() for sent in other.requests)


async def test_a_service_cannot_lead_into_the_api_of_the_sidecar(stage: Stage) -> None:
    """Its redirects have that origin, which is not the service's: neither trust nor token go with them."""
    away = b"HTTP/1.1 307 X\r\nContent-Length: 0\r\nLocation: /v1.0/state/statestore/key\r\n\r\n"
    daprd = await stage.server(answering(away, WELL))
    directory = behind(daprd.port)
    policy = EgressPolicy(allow=["127.0.0.0/8"], deny=[], sidecar_ports=(daprd.port,))
    sender = stage.sender(directory=directory, sidecar=directory, policy=policy)
    outcome = await sender.send(OutboundRequest("GET", "service://orders/x", (), redirects=1))
    assert outcome.kind is FaultKind.EGRESS
    assert len(daprd.requests) == 1
