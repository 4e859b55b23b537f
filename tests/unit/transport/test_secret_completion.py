"""A request is completed when it is sent, and what comes back has nothing of it (SPEC section 14)."""

import msgspec
import pytest

from scheduler_service.domain.secret_places import FilledBody, FilledText, write_place
from scheduler_service.domain.wire import Answer, AtSend, Fault, FaultKind, OutboundRequest, Outcome
from scheduler_service.ports.sending import MayGo, NotSent, always
from scheduler_service.security.secrets import GivenSecrets, SecretMasks
from scheduler_service.transport.secret_completion import CompletingSender, SendFailed

MARK = "secretabcdef"
GIVEN = {"default": {"TOKEN": ("t0p-secret", "before-it")}}


class Echo:
    """A target that answers with what it got, or fails with it."""

    def __init__(self, *, fails: bool = False) -> None:
        self.sent: list[OutboundRequest] = []
        self._fails = fails

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        if not may_go():
            raise NotSent
        self.sent.append(request)
        if self._fails:
            raise OSError(f"cannot reach {request.url}")
        headers = tuple((name, str(value)) for name, value in request.headers)  # as read from a socket
        return Answer(200, headers, bytes(request.body or b""), url=request.url)

    async def close(self) -> None:
        """Nothing to close."""


def sender(echo: Echo) -> CompletingSender:
    source = GivenSecrets(GIVEN)
    return CompletingSender(sender=echo, secrets=source, masks=SecretMasks(sources=[source], environments={}))


def request(name: str = "TOKEN", mark: str = MARK) -> OutboundRequest:
    place = write_place(MARK, 0) if mark else "none"
    return OutboundRequest(
        "POST",
        f"http://t/?k={place}",
        (("A", place),),
        f'"{place} before-it"'.encode(),
        at_send=AtSend("default", mark, (name,)),
    )


async def test_the_target_has_the_first_value_and_its_answer_none() -> None:
    """Nor the one that it replaces."""
    echo = Echo()
    found = await sender(echo).send(request())
    (sent,) = echo.sent
    assert (sent.url, sent.headers) == ("http://t/?k=t0p-secret", (("A", "t0p-secret"),))
    assert found == Answer(200, (("A", "***"),), b'"*** ***"', url="http://t/?k=***")
    # Also to one that has no secret itself
    found = await sender(Echo()).send(request(mark=""))
    assert isinstance(found, Answer)
    assert found.body == b'"none ***"'
    # Whatever stands in them
    echo = Echo()
    plain = OutboundRequest("POST", "http://t/", (), b"t0p-secret ${secrets.TOKEN}")
    found = await sender(echo).send(plain)
    assert echo.sent == [plain]
    assert isinstance(found, Answer)
    assert found.body == plain.body


async def test_nothing_is_sent_without_its_secret() -> None:
    """The fault names it."""
    echo = Echo()
    found = await sender(echo).send(request("GONE"))
    assert isinstance(found, Fault)
    assert found.kind is FaultKind.TEMPLATE
    assert "${secrets.GONE}" in found.message
    assert (echo.sent, found.unsent) == ([], False)
    # It is logged as it is
    with pytest.raises(SendFailed) as caught:
        await sender(Echo(fails=True)).send(request())
    assert "t0p-secret" not in repr(caught.value)
    assert "http://t/?k=***" in repr(caught.value)
    assert caught.value.__suppress_context__


async def test_a_secret_that_is_missing_is_looked_for_once_more() -> None:
    """Another process may have stored it a moment ago; while nobody can say, it is missing."""
    given: dict[str, dict[str, tuple[str, ...]]] = {"default": {}}
    source = GivenSecrets(given)
    echo, looks = Echo(), list[int]()

    async def look() -> None:
        looks.append(len(looks))
        if len(looks) == 1:
            return  # the store is away
        given["default"]["TOKEN"] = GIVEN["default"]["TOKEN"]

    masks = SecretMasks(sources=[source], environments={})
    sender = CompletingSender(sender=echo, secrets=source, masks=masks, look=look)
    missing = await sender.send(request())
    assert isinstance(missing, Fault)
    assert (missing.kind, echo.sent) == (FaultKind.TEMPLATE, [])
    for _ in range(2):
        assert await sender.send(request()) == Answer(
            200, (("A", "***"),), b'"*** ***"', url="http://t/?k=***"
        )
    assert looks == [0, 1]


async def test_what_is_masked_counts_as_a_secret_where_a_redirect_may_follow() -> None:
    """A variable whose name speaks of one was rendered as any other, and would go to another origin."""
    echo, source = Echo(), GivenSecrets(GIVEN)
    masks = SecretMasks(
        sources=[source], environments={"default": {"SHOP_TOKEN": "tok-1", "REGION": "north"}}
    )
    completing = CompletingSender(sender=echo, secrets=source, masks=masks)
    headers = (("X-Shop", "Bearer tok-1"), ("X-Region", "north"), ("X-Own", "t0p-secret"))
    plain = OutboundRequest("POST", "http://t/", headers, b'{"token":"tok-1"}', redirects=1)
    for given in (plain, msgspec.structs.replace(plain, at_send=AtSend("default"))):
        await completing.send(given)
        sent = echo.sent.pop()
        assert [type(value) for _, value in sent.headers] == [FilledText, str, FilledText]
        assert type(sent.body) is FilledBody
        assert sent == msgspec.structs.replace(given, at_send=sent.at_send)
    await completing.send(msgspec.structs.replace(plain, redirects=0, body=b"none"))
    assert {type(value) for _, value in echo.sent.pop().headers} == {str}
    await completing.send(msgspec.structs.replace(plain, tenant="other"))
    assert type(echo.sent.pop().body) is bytes
