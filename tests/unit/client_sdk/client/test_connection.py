"""One service over HTTP: keys, answers as data or errors, and answers that are no scheduler's."""

import asyncio
import itertools
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path

import httpx
import pytest

from client_sdk import BlockingClient, Client
from client_sdk.client.call_retries import Patience
from client_sdk.client.connection import LARGEST_ANSWER
from client_sdk.client.http_answers import LONGEST_TEXT
from client_sdk.client.queues import Queues
from client_sdk.client.services import Services
from client_sdk.errors import Absent, Conflict, Invalid, SdkError, Unavailable, Unreachable, Unreadable
from client_sdk.lite import LiteJob
from tests.certificate import Certificate, make_certificate, server_context, serving_tls
from tests.rows import each_row
from tests.unit.client_sdk.lines import Line, connect
from tests.wire.service import SERVED, definition, running


@each_row("key", ["", "a\nb", "a\r\n", "schlüssel", "x" * 256])
async def test_a_key_that_cannot_be_sent_is_refused_at_once(key: str) -> None:
    """Nothing is sent, and nothing is tried again."""
    line = Line(None)
    for call in (
        line.jobs.trigger("one", idempotency_key=key),
        line.jobs.create(definition(), job_id="one", idempotency_key=key),
        line.jobs.update("one", definition(), idempotency_key=key),
    ):
        with pytest.raises(ValueError, match="cannot be sent"):
            await call
    assert (line.line.sent, line.waits.seconds) == ([], [])


async def test_what_is_no_http_is_not_tried_again() -> None:
    """It would fail in the same manner every time."""
    line = Line(None, httpx.LocalProtocolError("Illegal header value"), "before")
    with pytest.raises(Unreachable, match="1 tries"):
        await line.jobs.get("one")
    assert line.waits.seconds == []


@each_row(
    ("failure", "was_sent", "words"),
    [
        (httpx.ConnectError("refused"), False, "no service answers"),
        (ExceptionGroup("all", [OSError("refused")]), False, "no service answers"),
        (ExceptionGroup("all", [OverflowError("port must be 0-65535.")]), False, "port must be"),
        (httpx.ReadTimeout("silent"), True, "which may have done it"),
        (httpx.RemoteProtocolError("cut"), True, "which may have done it"),
    ],
)
async def test_an_error_says_whether_the_service_may_have_done_it(
    failure: Exception, was_sent: bool, words: str
) -> None:
    """A trigger without a key is not tried again then: its caller has to look."""
    line = Line(None, failure, retries=0)
    with pytest.raises(Unreachable, match=words) as caught:
        await line.jobs.trigger("one")
    assert caught.value.was_sent is was_sent


async def test_lists_are_walked_page_by_page(client: Client) -> None:
    """Every item once, whatever the page's size; filters are the service's."""
    results = await client.jobs.create_many(
        [definition(jobId=f"job-{number:02}", labels={"odd": str(number % 2)}) for number in range(7)]
        + [{"jobId": "bad"}]
    )
    assert [one.status for one in results] == ["created"] * 7 + ["refused"]
    assert [job.job_id async for job in client.jobs.list(page=3)] == [f"job-{n:02}" for n in range(7)]
    odd = client.jobs.list(labels={"odd": "1"}, page=2, sort="-jobId")
    assert [job.job_id async for job in odd] == ["job-05", "job-03", "job-01"]


async def test_refusals_are_typed() -> None:
    """Each status is an error of its own, with everything that is wrong in it."""
    async with running() as world:
        jobs = Line(world).jobs
        with pytest.raises(Absent) as absent:
            await jobs.get("nowhere")
        assert absent.value.codes == {"absent"}
        with pytest.raises(Invalid) as invalid:
            await jobs.create(definition(colour="blue"), job_id="one")
        assert [(flaw.pointer, flaw.code) for flaw in invalid.value.errors] == [("/colour", "unknown_field")]
        await jobs.create(definition(), job_id="one")
        with pytest.raises(Conflict):
            await jobs.create(definition(jobName="other"), job_id="one")


async def test_a_route_that_does_not_exist_is_no_absent_thing() -> None:
    """A path too much in the URL, as in `http://HOST:PORT/jobs`: the address is wrong, nothing is missing."""
    async with running() as world:
        transport = httpx.ASGITransport(world.service.api)
        async with Client(f"{SERVED}/jobs", transport=transport) as client:
            with pytest.raises(Unreadable, match="answered 404, but not as a scheduler does: check the url"):
                await client.services.heartbeat("files", "one")
        async with Client(SERVED, transport=transport) as client:
            with pytest.raises(Absent):
                await client.services.heartbeat("files", "one")


MIB = 1 << 20


class Stream(httpx.AsyncByteStream):
    """A body in pieces; `given` counts their bytes."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces
        self.given = 0
        self.is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            self.given += len(piece)
            yield piece

    async def aclose(self) -> None:
        self.is_closed = True


def packed(coding: str, pieces: Iterable[bytes] = (b"x",)) -> httpx.Response:
    """An answer in this coding; what counts is what it takes in memory."""
    return httpx.Response(200, headers={"Content-Encoding": coding}, stream=Stream(pieces))


def zeros() -> Iterator[bytes]:
    """A little more than LARGEST_ANSWER, packed as it is read."""
    packer = zlib.compressobj(1, wbits=zlib.MAX_WBITS + 16)
    for _ in range(LARGEST_ANSWER // MIB + 1):
        yield packer.compress(bytes(MIB))
    yield packer.flush()


@each_row(
    ("answer", "said"),
    [
        (httpx.Response(200, text="<html>"), "not as a"),
        (httpx.Response(200, json=[]), "not as a"),
        (httpx.Response(404), "not as a"),
        *((httpx.Response(200, content=b), "not as a") for b in (b"[" * 100_000, b'{"data":' * 50_000)),
        *((httpx.Response(200, content=b), "not as a") for b in (b"9" * 10_000, b"\xff")),
        (packed("gzip"), "not as a"),
        (packed("gzip", zeros()), "64 MiB"),
        *((packed(coding), "not asked for") for coding in ("gzip, gzip", "br", "zstd")),
    ],
)
async def test_what_is_no_answer_of_a_scheduler_is_said_so(answer: httpx.Response, said: str) -> None:
    """A proxy's page, a stranger's JSON, what no parser reads, and codings that are broken or without end."""
    line = Line(None, answer)
    with pytest.raises(Unreadable, match=said):
        await line.jobs.get("one")
    assert line.line.sent[0].headers["accept-encoding"] == "gzip, deflate"


async def test_an_answer_without_end_is_left() -> None:
    """After `LARGEST_ANSWER` bytes the connection is closed."""
    stream = Stream(itertools.repeat(b"[" * MIB))
    with pytest.raises(Unreadable, match="64 MiB"):
        await Line(None, httpx.Response(200, stream=stream)).jobs.get("one")
    assert stream.is_closed
    assert stream.given <= LARGEST_ANSWER + MIB
    # The HTTP timeout begins anew with each of them

    class Slow(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            while True:
                yield b" "
                await asyncio.sleep(0)

    slow = httpx.MockTransport(lambda _: httpx.Response(200, stream=Slow()))
    connection = connect(slow, Patience(retries=0), timeout=0.01, answer_seconds=0.01)
    with pytest.raises(Unreachable, match="no whole answer"):
        await connection.send("GET", "/jobs/one")


@each_row(
    "date",
    [
        "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
        "Mon, 01 Jan 2024 00:00:00 +999999999999999999",
    ],
)
async def test_a_moment_that_no_clock_has_is_no_wait(date: str) -> None:
    """The program goes on, and asks again as usual."""
    refused = httpx.Response(503, headers={"retry-after": date}, json={"resp_code": 503, "detail": "no"})
    with pytest.raises(Unavailable):
        await Line(None, refused, retries=0).jobs.get("one")


@each_row("data", [None, 5, [], "text", {}, {"items": [1] * 1_000}])
async def test_data_of_another_kind_is_unreadable(data: object) -> None:
    """Whatever stands where an object should, the call ends with an error of the SDK."""
    answers = [httpx.Response(200, json={"resp_code": 200, "data": data, "warnings": 5}) for _ in range(2)]
    connection = Line(None, *answers).connection
    with pytest.raises(SdkError):
        await Queues(connection).claim("work", instance_id="one")
    with pytest.raises(SdkError):
        await Services(connection).register("one", "two", {})


async def test_texts_of_a_problem_are_cut() -> None:
    """They go into logs; one that is no text is none."""
    error, long = {"pointer": "/a", "code": "invalid", "message": "no"}, "x" * 100_000
    errors = [{**error, "message": long}, *([error] * 20_000)]
    body = {"resp_code": 422, "title": [[[]]], "detail": long, "errors": errors}
    with pytest.raises(Invalid) as refused:
        await Line(None, httpx.Response(422, json=body)).jobs.get("one")
    assert len(refused.value.detail) == len(refused.value.errors[0].message) == LONGEST_TEXT
    assert len(refused.value.errors) == 10_000


ONE_TRY = Patience(retries=0)


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    return make_certificate(tmp_path)


@pytest.fixture
def url(certificate: Certificate) -> Iterator[str]:
    with serving_tls(certificate) as url:
        yield url


async def read(url: str, ca: str | None = None) -> None:
    """One call."""
    async with Client(url, ca=ca, patience=ONE_TRY) as client:
        assert [job async for job in client.jobs.list()] == []


async def test_an_unknown_authority_is_refused(certificate: Certificate, url: str) -> None:
    """Before anything is sent: a key never reaches a stranger."""
    served: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(await reader.read(1))
        writer.close()

    context = server_context(certificate)
    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        with pytest.raises(Unreachable, match="certificate verify failed"):
            await read(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    assert served == []
    # And so has a port that does not speak TLS
    with pytest.raises(Unreachable, match="use a name that its certificate has"):
        await read(url.replace("127.0.0.1", "localhost"), str(certificate.path))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        with pytest.raises(Unreachable, match="does it speak http instead of https"):
            await read(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")


async def test_a_private_authority_is_named(
    url: str, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an argument, or as OpenSSL has it in the environment; without it the message says what to do."""
    with pytest.raises(Unreachable) as refused:
        await read(url)
    said = "certificate verify failed: self-signed certificate: for a private authority, give the file of its"
    assert said in str(refused.value)
    assert "Client(url, ca=FILE) or SSL_CERT_FILE" in str(refused.value)
    await read(url, str(certificate.path))
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.path))
    await read(url)
    job = {"request": [{"method": "GET", "url": f"{url}/"}]}
    async with LiteJob(job) as lite:
        assert (await lite.run()).state == "succeeded"
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere.pem")
    with pytest.raises(Unreachable, match=r"SSL_CERT_FILE='/nowhere.pem' cannot be read"):
        await read(url)
    async with LiteJob(job) as lite:
        assert (await lite.run()).error == "500"
    async with LiteJob(job, ca=str(certificate.path)) as lite:
        assert (await lite.run()).state == "succeeded"
    # It is the same client
    with BlockingClient(url, ca=str(certificate.path)) as client:
        assert list(client.jobs.list()) == []
