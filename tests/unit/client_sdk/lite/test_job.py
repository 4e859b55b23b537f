"""LiteJob: the same definition in the caller's own process, and what it sends (SPEC section 16)."""

import asyncio
import gzip
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import msgspec
import pytest

from client_sdk.errors import Invalid, SdkError, SignatureRefused
from client_sdk.lite import DefinitionRefused, LiteJob
from client_sdk.lite import job as lite_job
from client_sdk.lite.job import MOST_WAITING, LiteNotifications
from client_sdk.lite.sender import LiteSender
from client_sdk.models import JobDefinition, RequestStep
from client_sdk.signing import Verifier
from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.wire import OutboundRequest
from tests.rows import each_row
from tests.unit.client_sdk.lite.definitions import chain
from tests.unit.client_sdk.signed import NEW, OLD
from tests.wire.service import running
from tests.wire.target import HELD, Reply, Seen, Target


def plain(seen: Seen) -> tuple[Any, ...]:
    """What of a request does not differ from one life of a job to the next."""
    varies = {"host", "idempotency-key", "traceparent", "user-agent", "content-length", "webhook-id"}
    varies |= {"connection", "accept", "accept-encoding", "x-scheduling-deadline"}
    headers = {name: value for name, value in seen.headers.items() if name not in varies}
    return seen.method, seen.path, seen.query, headers, _body(seen)


def _body(seen: Seen) -> Any:
    body = json.loads(seen.body)
    if isinstance(body.get("response"), dict):
        body["response"].pop("datetime", None)
    return body


async def until(condition: Callable[[], object]) -> None:
    """Lets the others go on until it holds."""
    while not condition():  # noqa: ASYNC110 - what is waited for comes over a socket
        await asyncio.sleep(0)


async def test_a_chain_is_what_it_is_in_a_service(target: Target) -> None:
    """The target cannot tell the two apart: the same requests with the same headers and bodies."""

    def script(to: Target) -> None:
        to.always("/first", Reply(body={"id": "a b", "rows": [1, {"x": 2}]}))
        to.always("/second", Reply(body={"status": "fine"}))

    script(target)
    async with LiteJob(chain(target.url)) as job:
        ended = await job.run({"size": 3})
    assert (ended.state, ended.error, ended.attempt_count) == ("succeeded", None, 1)
    assert [step.status for step in ended.steps] == [200, 200]
    assert ended.response == {"status": "fine"}
    async with running() as world:
        script(world.target)
        await world.client.post(
            "/jobs/chain", json=chain(world.target.url) | {"timer": {"period": "external"}}
        )
        fired = await world.client.post("/jobs/chain/trigger", json={"size": 3})
        await world.ended(fired.json()["data"]["executionId"])
        await world.settle()
        assert [plain(one) for one in world.target.seen] == [plain(one) for one in target.seen]
    keys = [one.headers["idempotency-key"] for one in target.seen[:2]]
    assert keys[0].rpartition("-")[0] == keys[1].rpartition("-")[0]
    assert {len(one.headers["traceparent"]) for one in target.seen} == {55}
    assert {len(one.headers["x-scheduling-deadline"]) for one in target.seen} == {24}
    # Who made it is nobody's question here
    model = JobDefinition(job_name="x", request=[RequestStep(url=f"{target.url}/run")])
    for definition in (model, {"request": [{"url": f"{target.url}/run"}]}):
        async with LiteJob(definition) as job:
            assert (await job.run()).state == "succeeded"
            assert (await job.run()).execute_number == 2


async def test_failures_are_retried_as_the_policies_say(target: Target) -> None:
    """With the waits between them; the end has the last error."""
    retry = [{"errorEquals": "503", "intervalSeconds": 0.01, "maxAttempts": 3}]
    definition = {"request": [{"url": f"{target.url}/run"}], "retry": retry}
    target.answers("/run", 503, 503, Reply(body={"good": True}))
    async with LiteJob(definition) as job:
        ended = await job.run()
        assert (ended.state, ended.attempt_count, ended.response) == ("succeeded", 3, {"good": True})
        target.answers("/run", 503, 404)
        ended = await job.run()
        assert (ended.state, ended.error, ended.failure_type) == ("terminated", "404", "http")
    assert len({one.headers["idempotency-key"] for one in target.seen}) == 2
    # There is no timer here that could be paused
    target.answers("/run", Reply(410, headers={"X-Job-State": "gone"}))
    async with LiteJob({"request": [{"url": f"{target.url}/run"}]}) as job:
        assert (await job.run()).error == "410"
        assert (await job.run()).state == "succeeded"


async def test_answers_are_judged_by_their_body(target: Target) -> None:
    """GBK with `{"code": 500}` fails as in a service; a robot's 200 with an `errcode` is no delivery."""
    gbk = Reply(body='{"code": 500, "msg": "库存不足"}'.encode("gbk"))
    gbk.headers["Content-Type"] = "application/json;charset=GBK"
    target.answers("/run", gbk, Reply(body={"code": 200}))
    target.answers("/told", Reply(body={"errcode": 9}))
    target.always("/told", Reply(body={"errcode": 0}))
    definition = {
        "request": [{"url": f"{target.url}/run", "successWhen": "@.code == 200", "errorFrom": "$.code"}],
        "retry": [{"errorEquals": "500", "intervalSeconds": 0.01, "maxAttempts": 1}],
        "notification": [
            {
                "url": f"{target.url}/told",
                "stateEquals": ["500", "finalSucceed"],
                "successWhen": "@.errcode == 0",
            }
        ],
    }
    async with LiteJob(definition, notification_interval_seconds=0.01) as job:
        ended = await job.run()
    assert (ended.state, ended.attempt_count, ended.steps[0].error) == ("succeeded", 2, "500")
    bodies = [json.loads(one.body) for one in target.at("/told")]
    assert sorted(one["response"]["status"] for one in bodies) == ["failed", "failed", "finalSucceed"]
    assert {one["response"]["message"] for one in bodies if one["response"]["error"]} == {"库存不足"}


async def test_feedback_is_handed_in(target: Target) -> None:
    """Where the process listens itself; a token that does not fit does not count."""
    definition = {
        "request": [{"url": f"{target.url}/run", "headers": {"Feedback-Url": "${schedulingFeedbackUrl}"}}],
        "async": True,
    }
    called = asyncio.Event()

    def take(seen: Seen) -> Reply:
        called.set()
        return Reply(status=202)

    target.always("/run", take)
    async with LiteJob(definition, feedback_url="http://me.test") as job:
        running_job = asyncio.create_task(job.run())
        await called.wait()
        url = urlsplit(target.seen[0].headers["feedback-url"])
        assert (url.netloc, url.path) == ("me.test", "/jobs/lite/feedback/1")
        [token] = parse_qs(url.query)["token"]
        with pytest.raises(Invalid):
            await job.feedback(1, "wrong", {"status": "succeed"})
        await job.feedback(1, token, {"status": "failed", "error": "E1"})
        ended = await running_job
    assert (ended.state, ended.error) == ("terminated", "E1")


async def test_a_location_is_polled(target: Target) -> None:
    """Without `checkUrl`, as in a service; where none comes, the limit ends it, of which the warning told."""
    definition = {
        "request": [{"url": f"{target.url}/run"}],
        "async": True,
        "checkRateSeconds": 0.1,
        "timeoutSeconds": 60,
    }
    target.answers("/run", Reply(202, headers={"Location": "/task"}), 200)
    target.answers("/task", 202, Reply(body={"status": "succeed"}))
    async with LiteJob(definition) as job:
        assert [(one.pointer, "202 with Location" in one.message) for one in job.warnings] == [
            ("/async", True)
        ]
        assert (await job.run()).state == "succeeded"
    async with LiteJob(definition | {"timeoutSeconds": 0.3}) as job:
        assert (await job.run()).error == "timeout"
    assert [one.path for one in target.seen] == ["/run", "/task", "/task", "/run"]


async def test_who_stops_waiting_cancels(target: Target) -> None:
    """So does closing; the place is free for the next one."""
    target.answers("/run", HELD, HELD)
    definition = {"request": [{"url": f"{target.url}/run"}], "cancelUrl": {"url": f"{target.url}/cancel"}}
    async with LiteJob(definition) as job:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await job.run()
        waiting = asyncio.create_task(job.run())
        skipped = await _second(job)
        assert skipped.state == "skipped"
    assert (await waiting).state == "cancelled"
    assert len(target.at("/cancel")) == 2
    # Nothing would ring for it any more
    for closed in (job.run(), job.feedback(1, "t", {"status": "succeed"})):
        with pytest.raises(SdkError, match="the job is closed, as its block was left"):
            await closed


@each_row(
    ("more", "state"),
    [({}, "cancelled"), ({"timeoutSeconds": 0.05}, "terminated"), ({"async": True}, "cancelled")],
)
async def test_leaving_at_once_calls_the_cancel_url(more: dict[str, Any], state: str) -> None:
    """For an execution that has just run out of time, and for one that runs or waits when it is left."""
    async with Target(lambda: 0) as target:
        target.answers("/run", 202 if "async" in more else HELD)
        step = {"request": [{"url": f"{target.url}/run"}], "cancelUrl": {"url": f"{target.url}/cancel"}}
        async with LiteJob(step | more, feedback_url="http://me.test") as job:
            running_job = asyncio.create_task(job.run())
            if state == "terminated":
                await running_job
            await until(lambda: target.seen)
        assert (await running_job).state == state
        assert len(target.at("/cancel")) == 1


async def test_leaving_waits_for_no_answer_to_a_cancel(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only so long that it is sent; what waits for its turn is cancelled before it begins."""
    monkeypatch.setattr(lite_job, "CANCEL_SECONDS", 0.2)
    target.answers("/run", HELD)
    target.answers("/cancel", HELD)
    step = {"request": [{"url": f"{target.url}/run"}], "cancelUrl": {"url": f"{target.url}/cancel"}}
    async with LiteJob(step | {"overlapPolicy": "queue"}) as job:
        runs = [asyncio.create_task(job.run()) for _ in range(3)]
        await until(lambda: target.held)
    assert [(await one).state for one in runs] == ["cancelled"] * 3
    assert [one.path for one in target.seen] == ["/run", "/cancel"]


async def _second(job: LiteJob) -> Any:
    await asyncio.sleep(0)
    return await job.run()


async def test_notifications_are_tried_again(target: Target) -> None:
    """Beside the executions: leaving the block waits for them."""
    target.answers("/told", 500, 500)
    async with LiteJob(chain(target.url), notification_interval_seconds=0.01) as job:
        target.always("/first", Reply(body={"id": "1", "rows": 1}))
        await job.run({"size": 1})
    told = target.at("/told")
    assert len(told) == 3
    assert len({one.headers["webhook-id"] for one in told}) == 1
    assert json.loads(told[-1].body)["response"]["status"] == "finalSucceed"


async def test_first_tries_go_in_the_order_of_the_events(target: Target) -> None:
    """Those of one execution; another execution does not wait for them."""
    target.answers("/told", HELD)
    definition = {"request": [{"url": f"{target.url}/run"}], "notification": [{"url": f"{target.url}/told"}]}
    async with LiteJob(definition) as job:
        await job.run()
        await until(lambda: target.held)
        await job.run()
        await until(lambda: len(target.at("/told")) == 3)
        target.release()
    told = [(one.json["executeNumber"], one.json["response"]["status"]) for one in target.at("/told")]
    assert told == [(1, "succeed"), (2, "succeed"), (2, "finalSucceed"), (1, "finalSucceed")]


async def test_what_waits_for_a_slow_target_is_bounded(
    target: Target, caplog: pytest.LogCaptureFixture
) -> None:
    """Beyond 100 the oldest is dropped that ends no execution; the end is told in any case."""
    target.answers("/told", HELD)
    sender = LiteSender(response_bytes=100)
    notifications = LiteNotifications(sender=sender, retries=0, interval=0)
    request = OutboundRequest("POST", f"{target.url}/told", ())
    for ordinal in range(MOST_WAITING + 3):
        told = msgspec.structs.replace(request, url=f"{request.url}/{ordinal}")
        notifications.send(Delivery(f"d{ordinal}", "u", 1, 1, ordinal, "e", told, final=ordinal == 1))
        await until(lambda: target.held)
    target.release()
    await notifications.finish()
    await sender.close()
    assert [one.path for one in target.seen] == [f"/told/{one}" for one in (0, 1, *range(4, 103))]
    assert caplog.messages == [f"notification e to {target.url}/told/{one} was superseded" for one in (2, 3)]


async def test_no_url_is_logged(target: Target, caplog: pytest.LogCaptureFixture) -> None:
    """Targets are the caller's, and their URLs may hold tokens; other users of httpx log as before."""
    caplog.set_level("INFO", logger="httpx")
    target.answers("/moved", Reply(status=303, headers={"Location": "/here?token=other"}))
    step = {"url": f"{target.url}/moved?token=secret", "followRedirects": 1}
    async with LiteJob({"request": [step]}) as job, httpx.AsyncClient() as http:
        assert (await job.run()).state == "succeeded"
        assert not [line for line in caplog.messages if target.url in line]
        await http.get(f"{target.url}/mine")
        assert [line for line in caplog.messages if "/mine" in line]


async def test_what_the_network_does(target: Target) -> None:
    """Nobody there, no answer in time, too much of an answer, an answer elsewhere."""
    target.answers("/slow", HELD)
    target.always("/big", Reply(body={"x": "y" * 100}))
    target.answers("/moved", Reply(status=303, headers={"Location": "/here"}))
    target.always("/here", Reply(body={"here": True}))
    big = {"url": f"{target.url}/big", "respEnvName": "BIG"}
    cases: list[tuple[list[dict[str, Any]], tuple[str | None, str | None]]] = [
        ([{"url": "http://127.0.0.1:1/"}], ("500", "connect")),
        ([{"url": f"{target.url}/slow", "timeoutSeconds": 0.05}], ("500", "timeout")),
        ([big, {"url": f"{target.url}/x", "body": "${BIG.x}"}], ("response_too_large", "too_large")),
        ([{"url": f"{target.url}/moved"}], ("303", "http")),
    ]
    for steps, expected in cases:
        target.answers("/moved", Reply(status=303, headers={"Location": "/here"}))
        async with LiteJob({"request": steps}, response_bytes=50) as job:
            ended = await job.run()
            assert (ended.error, ended.failure_type) == expected, steps
    async with LiteJob({"request": [{"url": f"{target.url}/moved", "followRedirects": 1}]}) as job:
        assert (await job.run()).response == {"here": True}
    assert target.seen[-1].method == "GET"
    # A target would grow the heads of all requests that follow
    target.answers("/one", Reply(headers={"Set-Cookie": "a=b"}))
    async with LiteJob({"request": [{"url": f"{target.url}/one"}, {"url": f"{target.url}/two"}]}) as job:
        assert (await job.run()).state == "succeeded"
    assert "cookie" not in target.seen[-1].headers


async def test_answers_that_would_fill_the_memory_or_end_nothing(target: Target) -> None:
    """Nested too deep: text. In two layers of gzip, 64 KiB of which are 64 GiB: kept as it came."""
    target.answers("/deep", Reply(body=b"[" * 100_000))
    packed = gzip.compress(gzip.compress(bytes(1 << 24)))
    target.answers("/bomb", Reply(body=packed, headers={"Content-Encoding": "gzip, gzip"}))
    large = gzip.compress(bytes(1 << 24))
    target.answers("/large", Reply(body=large, headers={"Content-Encoding": "gzip"}))
    steps = [{"url": f"{target.url}/{name}"} for name in ("deep", "bomb", "large")]
    async with LiteJob({"request": steps}, response_bytes=1 << 20) as job:
        ended = await job.run()
    assert ended.state == "succeeded"
    assert ended.steps[0].body == "[" * 100_000
    assert len(ended.steps[1].body) <= len(r"\xff") * len(packed)
    assert len(ended.steps[2].body) == 1 << 20


def signed_by(seen: Seen, secret: str) -> bool:
    """Whether a request was signed with this secret, a moment ago."""
    try:
        return bool(Verifier(secret).verify(seen.headers, seen.body))
    except SignatureRefused:
        return False


async def test_requests_are_signed_with_the_secrets_that_are_given(target: Target) -> None:
    """Each hop of a redirect anew, but for another origin's; a name that is no secret is refused."""
    async with Target(lambda: 0) as other:
        target.answers("/run", Reply(307, headers={"Location": "/next"}))
        target.answers("/next", Reply(303, headers={"Location": f"{other.url}/away"}))
        told = {"url": f"{target.url}/told", "sign": "both", "stateEquals": "finalSucceed"}
        step = {"url": f"{target.url}/run", "body": {"a": 1}, "sign": "both", "followRedirects": 2}
        definition = {"request": [step], "notification": [told]}
        async with LiteJob(definition, secrets={"both": [NEW, OLD], "one": NEW}) as job:
            assert (await job.run()).state == "succeeded"
        for path in ("/run", "/next", "/told"):
            assert [signed_by(seen, secret) for seen in target.at(path) for secret in (NEW, OLD)] == [
                True
            ] * 2
        assert [name for name in other.at("/away")[0].headers if name.startswith("webhook-")] == []
    for given, said in (({}, "there is no 'both'"), ({"both": "plain text"}, "cannot sign")):
        with pytest.raises(DefinitionRefused, match=said):
            LiteJob(definition, secrets=given)


TOKEN, SHOP = "t0p-secret-1", "shop-token-2"
CREDENTIALS = {
    "Authorization": "Bearer x", "Cookie": "a=b", "X-Api-Key": "k", "Proxy-Authorization": "p",
    "X-Own": "${secrets.A}", "X-Shop": "Basic ${SHOP_TOKEN}",
}  # fmt: skip


@each_row(
    ("status", "body", "method", "error"),
    [
        (301, {"a": 1}, "GET", None),
        (302, {"a": "${secrets.A}"}, "GET", None),
        (303, {"a": "${SHOP_TOKEN}"}, "GET", None),
        (307, {"a": 1}, "POST", None),
        (308, {"a": "${secrets.A}"}, "", "308"),
        (307, {"a": "${SHOP_TOKEN}"}, "", "307"),
    ],
)
async def test_nothing_secret_follows_a_redirect_elsewhere(
    status: int, body: Any, method: str, error: str | None
) -> None:
    """As from a service: no credential and no masked value goes there; at home all of it does."""
    async with Target(lambda: 0) as target, Target(lambda: 0) as other:
        target.answers("/home", Reply(status, headers={"Location": "/away"}))
        target.answers("/away", Reply(status, headers={"Location": f"{other.url}/end"}))
        step = {"headers": CREDENTIALS | {"X-Plain": "p"}, "body": body, "followRedirects": 2}
        definition = {"request": [step | {"url": f"{target.url}/home"}]}
        async with LiteJob(
            definition, secrets={"A": TOKEN}, environment={"SHOP_TOKEN": SHOP, "REGION": "north"}
        ) as job:
            assert (await job.run()).error == error
        [home] = target.at("/away")
        assert {name.lower() for name in CREDENTIALS} <= home.headers.keys()
        assert [seen.method for seen in other.seen] == ([method] if method else [])
        for seen in other.seen:
            assert seen.headers["x-plain"] == "p"
            assert not {name.lower() for name in CREDENTIALS} & seen.headers.keys()
            assert ("content-type" in seen.headers) is (method == "POST")
            assert not any(one in f"{seen.headers}{seen.body!r}" for one in (TOKEN, SHOP))


async def test_an_answer_has_no_secret(target: Target) -> None:
    """A target that gives one back hands it on to no step, and it is in no result."""
    target.always("/echo", lambda seen: Reply(body={"got": seen.json, "key": seen.headers["x-own"]}))
    first = {"url": f"{target.url}/echo?k=${{secrets.A}}", "body": "${secrets.A}", "respEnvName": "R"}
    second = {"url": f"{target.url}/next", "body": {"v": "${R.got}", "h": "${R.key}"}}
    definition = {"request": [first | {"headers": {"X-Own": "${secrets.A}"}}, second]}
    async with LiteJob(definition, secrets={"A": TOKEN}) as job:
        ended = await job.run()
    assert target.seen[0].json == TOKEN
    assert target.seen[1].json == {"v": "***", "h": "***"}
    assert TOKEN not in str(ended)


@each_row("location", ["ftp://x/", "file:///etc/passwd", "http://[::1", "http://a@b/", "mailto:x"])
async def test_a_redirect_to_what_is_no_url_is_refused(location: str) -> None:
    """Before anything is sent, with the error of a service; not followed, it is an answer like any other."""
    async with Target(lambda: 0) as target:
        target.always("/run", Reply(302, headers={"Location": location}))
        for hops, expected in ((1, ("egress", "egress")), (0, ("302", "http"))):
            async with LiteJob({"request": [{"url": f"{target.url}/run", "followRedirects": hops}]}) as job:
                ended = await job.run()
            assert (ended.error, ended.failure_type) == expected


@each_row("method", ["GET", "PUT", "POST"])
async def test_what_a_kept_connection_lost_is_sent_once(method: str) -> None:
    """Nobody knows whether it was handled: a failed connection."""
    seen: list[bytes] = []

    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 204 X\r\n\r\n")
        with suppress(asyncio.IncompleteReadError):
            seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    async with await asyncio.start_server(answer_once, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        steps = [{"method": method, "url": f"{url}/{number}"} for number in (1, 2)]
        async with LiteJob({"request": steps}) as job:
            found = await job.run()
        assert (found.error, found.failure_type, len(seen)) == ("500", "connect", 2)


async def test_what_cannot_be_signed_is_not_sent(target: Target) -> None:
    """An id that receivers read differently, with the error of a service."""
    step = {"url": f"{target.url}/run", "sign": "one", "headers": {"Idempotency-Key": "${trigger.key}"}}
    async with LiteJob({"request": [step]}, secrets={"one": NEW}) as job:
        ended = await job.run({"key": "订"})
        assert (ended.error, target.seen) == ("template", [])
        assert (await job.run({"key": " a "})).error is None
    assert target.seen[0].headers["webhook-id"] == "a"
