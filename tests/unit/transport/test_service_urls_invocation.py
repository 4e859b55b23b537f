"""`service://` by Dapr's service invocation (SPEC section 9)."""

import pytest

from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest, Outcome
from scheduler_service.ports.sending import MayGo, always
from scheduler_service.transport.service_urls import InvocationDirectory, InvocationSender
from tests.static_directory import StaticDirectory

pytestmark = pytest.mark.anyio

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


async def test_what_was_not_delivered_is_no_answer() -> None:
    """The sidecar's own 500 is a connection failure."""
    sender = InvocationSender(sender=Fixed(Answer(500, body=UNDELIVERED, elapsed=7)))
    outcome = await sender.send(OutboundRequest("POST", "service://nobody/path?secret=1", ()))
    assert isinstance(outcome, Fault)
    assert (outcome.kind, outcome.elapsed) == (FaultKind.CONNECT, 7)
    assert "secret" not in outcome.message


@pytest.mark.parametrize(
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
