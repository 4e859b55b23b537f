"""Secrets reach their targets, and nobody else ever reads one (SPEC section 14)."""

import base64
import json
import logging
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from scheduler_service.language.value_masks import forms_of
from tests.wire.queue_work import claim, complete, create, trigger
from tests.wire.service import World, data_of, definition, pointers, running
from tests.wire.target import HELD, Reply, Seen

CANARY = 'c4nary/"of the+shop&=%1'
OTHER = "0ther-canary-of-the-shop"
GIVEN = {"default": {"CANARY": CANARY, "OTHER": [OTHER, "before-it-was-rotated"]}}
FORMS = sorted(form for value in (CANARY, OTHER, "before-it-was-rotated") for form in forms_of(value))


def leaks(text: bytes) -> list[bytes]:
    """The forms of the canaries that are in it."""
    return [form for form in FORMS if form in text]


def echo(seen: Seen) -> Reply:
    """Answers with all that it got, in all the ways that a target may have."""
    said = {
        "got": {"headers": seen.headers, "query": seen.query, "body": seen.body.decode("utf-8", "replace")},
        "encoded": [quote(CANARY), base64.b64encode(f"user:{CANARY}".encode()).decode()],
        "url": f"http://elsewhere.test/?k={quote(CANARY, safe='')}",
        "message": f"wrong key {CANARY}",
        "error": OTHER,
        "progress": OTHER,
        "status": "failed",
        CANARY: "as a name",
    }
    return Reply(
        int(seen.query.get("status", "200")), said, {"X-Echo": OTHER, "X-Query": quote(CANARY, safe="")}
    )


def using(target: str, status: int) -> dict[str, Any]:
    """A request with both secrets in each place."""
    return {
        "url": f"{target}?status={status}&k=${{secrets.CANARY}}&o=${{secrets.OTHER}}",
        "headers": {"Authorization": "Bearer ${secrets.OTHER}", "X-Own": "o ${secrets.OTHER}"},
    }


async def read_all(world: World, job_ids: list[str]) -> bytes:
    """What each answer that shows something of the jobs has."""
    paths = ["/jobs", "/executions", "/deliveries", "/settings", "/metrics", "/openapi.json", "/alerts"]
    paths += ["/services", "/queues", "/nodes", "/statistics", "/upcoming", "/health/ready"]
    executions = (await world.client.get("/executions?limit=100")).json()["data"]["items"]
    paths += [f"/executions/{one['executionId']}" for one in executions]
    paths += [f"/executions/{one['executionId']}/log" for one in executions]
    for job_id in job_ids:
        paths += [f"/jobs/{job_id}", f"/jobs/{job_id}/revisions", f"/jobs/{job_id}/executions"]
    answers = [(path, await world.client.get(path)) for path in paths]
    assert [(path, answer.status_code) for path, answer in answers if answer.status_code != 200] == []
    texts = [answer.content for _, answer in answers]
    assert CANARY not in str(world.log)
    return b"\n".join([*texts, repr(world.log).encode()])


async def test_every_request_has_them_and_nothing_else_does(caplog: pytest.LogCaptureFixture) -> None:
    """Steps, checks, notifications and cancel calls; answers, failures, events, logs and metrics."""
    caplog.set_level(logging.DEBUG)
    async with running(secrets=GIVEN, log={"level": "debug", "access": True}) as world:
        for path in ("/step", "/second", "/check", "/told", "/cancel"):
            world.target.always(path, echo)
        target = world.target.url
        body = {"s": "${secrets.CANARY}", "deep": [{"t": "t ${secrets.OTHER}"}]}
        notified = using(f"{target}/told", 500)
        notified["body"] = {"s": "${secrets.CANARY}", "n": "${schedulingNotifyBody}|json"}
        steps = [
            {**using(f"{target}/step", 200), "body": body},
            {"url": f"{target}/second", "body": "${$}|json"},
        ]
        failing = {**using(f"{target}/step", 500), "body": body}
        ids = ["good", "bad", "checked", "gone", "plain"]
        jobs = {
            "good": {"request": steps, "notification": [notified], "qos": 1},
            "bad": {"request": [failing], "notification": [notified], "qos": 1},
            "checked": {
                "request": [using(f"{target}/step", 200)], "async": True, "timeoutSeconds": 30,
                "checkUrl": using(f"{target}/check", 200), "cancelUrl": using(f"{target}/cancel", 200),
            },
            "gone": {"request": [{"url": f"{target}/step", "headers": {"A": "${secrets.GONE}"}}]},
            "plain": {"request": [{"url": f"{target}/step"}]},
        }  # fmt: skip
        executions = []
        for job_id, members in jobs.items():
            data_of(await world.client.post(f"/jobs/{job_id}", json=definition(**members)), 201)
            answer = await world.client.post(f"/jobs/{job_id}/trigger", json={"s": "${secrets.CANARY}"})
            executions.append(data_of(answer)["executionId"])
        for execution in executions:
            await world.advance(3)
            await world.ended(execution)
        await world.advance(70)
        (first, *_) = world.target.at("/step")
        assert first.query["k"] == CANARY
        assert first.query["o"] == OTHER
        assert first.headers["authorization"] == f"Bearer {OTHER}"
        assert first.json == {"s": CANARY, "deep": [{"t": f"t {OTHER}"}]}
        (second, *_) = world.target.at("/second")
        assert leaks(second.body) == []
        assert b"***" in second.body
        assert world.target.at("/check")[0].query["k"] == CANARY
        told = world.target.at("/told")
        assert {one.json["s"] for one in told} == {CANARY}
        assert all(leaks(json.dumps(one.json["n"]).encode()) == [] for one in told)
        gone = await world.ended(executions[3])
        assert (gone["error"], gone["failureType"]) == ("template", "template")
        assert "${secrets.GONE}" in json.dumps(gone)
        assert leaks(await read_all(world, ids)) == []
        assert leaks(caplog.text.encode()) == []


async def test_a_secret_that_a_job_does_not_name_is_hidden_where_it_is_shown() -> None:
    """A target that knows it from another job may say it as an error, a message, progress, a header."""
    alert = {"on": ["finalFailed"], "url": "service://jobswork/told"}
    async with running(secrets=GIVEN, alerts=[alert]) as world:
        said = {
            "message": f"no {OTHER}",
            "error": OTHER,
            "status": "failed",
            "progress": OTHER,
            "code": OTHER,
        }
        headers = {"X-Echo": CANARY, "content-type": f"application/json; x={OTHER}"}
        for path in ("/step", "/check", "/heard", "/good"):
            world.target.always(path, Reply(500 if path == "/step" else 200, said, headers))
        judged = {"errorFrom": "$.code", "messageFrom": "$.message"}
        heard = {"url": "service://jobswork/heard", "successWhen": "$.code == 0", **judged}
        jobs = {
            "failing": {"request": [{"url": "service://jobswork/step", **judged}], "notification": [heard]},
            "checked": {
                "request": [{"url": "service://jobswork/run"}], "async": True, "notification": [heard],
                "checkUrl": {"url": "service://jobswork/check"}, "timeoutSeconds": 30,
            },
            "kept": {"request": [{"url": "service://jobswork/good"}], "keepResult": True},
        }  # fmt: skip
        for job_id, members in jobs.items():
            data_of(await world.client.post(f"/jobs/{job_id}", json=definition(**members)), 201)
            data_of(await world.client.post(f"/jobs/{job_id}/trigger"))
        await world.advance(90)
        latest = data_of(await world.client.get("/jobs/failing"))["latestExecution"]
        assert (latest["state"], latest["error"]) == ("terminated", "***")
        assert leaks(await read_all(world, list(jobs))) == []
        result = await world.client.get("/executions/kept%23last/result")
        assert (data_of(result)["body"]["code"], leaks(result.content)) == ("***", [])
        assert len(world.target.at("/told")) == 2
        assert leaks(b"".join(one.body for one in world.target.at("/told"))) == []


async def test_a_secret_is_read_again_when_its_file_changes(tmp_path: Path) -> None:
    """No job is updated; what was replaced stays hidden where a target still knows it."""
    (tmp_path / "TOKEN").write_text("first-value\n", encoding="utf-8")
    async with running(secrets_dir=str(tmp_path)) as world:
        world.target.always(
            "/run", lambda seen: Reply(200, {"got": seen.headers["a"], "before": "first-value"})
        )
        step = {"url": f"{world.target.url}/run", "headers": {"A": "${secrets.TOKEN}"}}
        data_of(await world.client.post("/jobs/j", json=definition(request=[step])), 201)
        for value in ("first-value", "second-value"):
            (tmp_path / "next").write_text(value, encoding="utf-8")
            (tmp_path / "next").replace(tmp_path / "TOKEN")
            found = await world.ended(
                data_of(await world.client.post("/jobs/j/trigger", json={}))["executionId"]
            )
            assert world.target.seen[-1].headers["a"] == value
            (exchange,) = found["attempts"][0]["steps"]
            assert json.loads(exchange["response"]["body"]) == {"got": "***", "before": "***"}


async def test_a_worker_gets_the_whole_request_and_its_reports_are_hidden() -> None:
    """A claim gives the request as it would be sent; what comes back of it has no secret."""
    async with running(secrets=GIVEN) as world:
        await create(world, {"headers": {"A": "${secrets.OTHER}"}, "body": {"s": "${secrets.CANARY}"}})
        execution = await trigger(world)
        (item,) = await claim(world)
        assert item["request"]["headers"]["A"] == OTHER
        assert item["request"]["body"] == {"s": CANARY}
        said = {"progress": CANARY, "message": f"with {OTHER}"}
        data_of(await world.client.post(f"/leases/{item['lease']}/renew", json=said))
        data_of(await complete(world, item["lease"], data={"got": item["request"], CANARY: [OTHER]}))
        found = await world.ended(execution)
        assert leaks(json.dumps(found).encode()) == []
        (step,) = found["attempts"][0]["steps"]
        assert json.loads(step["request"]["body"]) == {"s": "***"}
        assert leaks(await read_all(world, ["j"])) == []


async def test_a_report_on_a_claim_has_no_value_that_is_new(tmp_path: Path) -> None:
    """A file that was just replaced: its value is hidden from the claim on, however soon the report comes."""
    (tmp_path / "TOKEN").write_text("first-value", encoding="utf-8")
    async with running(secrets_dir=str(tmp_path)) as world:
        await create(world, {"headers": {"A": "${secrets.TOKEN}"}})
        execution = await trigger(world)
        (tmp_path / "TOKEN").write_text("second-value", encoding="utf-8")
        (item,) = await claim(world)
        assert item["request"]["headers"]["A"] == "second-value"
        data_of(await complete(world, item["lease"], data={"got": "second-value"}))
        assert "second-value" not in json.dumps(await world.ended(execution))


async def test_work_without_its_secret_ends_as_template() -> None:
    """Nobody is given it."""
    async with running(secrets=GIVEN) as world:
        await create(world, {"headers": {"A": "${secrets.GONE}"}})
        execution = await trigger(world)
        assert await claim(world) == []
        found = await world.ended(execution)
        assert (found["error"], found["failureType"]) == ("template", "template")


async def test_a_report_has_none() -> None:
    """A target may hand on what it got in its feedback; it is stored and told without."""
    async with running(secrets=GIVEN) as world:
        step = {
            "url": f"{world.target.url}/run",
            "headers": {"A": "${secrets.OTHER}"},
            "body": "${schedulingFeedbackUrl}",
        }
        told = {"url": f"{world.target.url}/told", "body": "${schedulingNotifyBody}|json"}
        posted = definition(request=[step], notification=[told], **{"async": True})
        data_of(await world.client.post("/jobs/j", json=posted), 201)
        execution = data_of(await world.client.post("/jobs/j/trigger", json={}))["executionId"]
        await world.settle()
        url = world.target.seen[-1].json
        said = {"status": "failed", "error": "E1", "message": f"wrong {CANARY}", "data": {OTHER: [OTHER]}}
        data_of(await world.client.post(url, json=said))
        found = await world.ended(execution)
        assert leaks(json.dumps(found).encode()) == []
        assert "wrong ***" in json.dumps(found)
        await world.settle()
        assert [leaks(one.body) for one in world.target.at("/told")] == [[]] * 2
        assert all(b"wrong ***" in one.body for one in world.target.at("/told"))


async def test_the_reason_of_a_cancellation_has_none() -> None:
    """It is in lists, events and the audit, and goes to the target's `cancelUrl`."""
    async with running(secrets=GIVEN) as world:
        world.target.answers("/run", HELD)
        data_of(await world.client.post("/jobs/j", json=definition()), 201)
        execution = data_of(await world.client.post("/jobs/j/trigger", json={}))["executionId"]
        await world.settle()
        said = {"reason": f"wrong {CANARY}"}
        data_of(await world.client.post(f"/executions/{execution}/cancel", json=said))
        assert (await world.ended(execution))["reason"] == "wrong ***"
        assert leaks(await read_all(world, ["j"]) + (await world.client.get("/audit")).content) == []


async def test_previews_and_refusals_have_none() -> None:
    """A preview shows `***`; where no secret can stand is a 422."""
    async with running(secrets=GIVEN) as world:
        posted = {"template": {"a": "x ${secrets.CANARY}"}, "place": "body"}
        answer = await world.client.post("/templates/preview", json=posted)
        assert data_of(answer)["value"] == {"a": "x ***"}
        refused = await world.client.post(
            "/jobs/j", json=definition(request=[{"url": "http://${secrets.CANARY}.test/"}])
        )
        assert refused.status_code == 422
        assert pointers(refused) == [("/request/0/url", "invalid")]


async def test_a_stored_secret_is_used_at_once(tmp_path: Path) -> None:
    """It is put over the API, reaches the target, and lies encrypted in the database."""
    key = base64.b64encode(bytes(range(32))).decode()
    database = tmp_path / "history.db"
    async with running(secrets_key=key, database={"url": f"sqlite:///{database}"}) as world:
        data_of(await world.client.put("/secrets/TOKEN", json={"value": OTHER}))
        step = {"url": f"{world.target.url}/run", "headers": {"A": "${secrets.TOKEN}"}}
        data_of(await world.client.post("/jobs/j", json=definition(request=[step])), 201)
        for gone in (False, True):
            found = await world.ended(
                data_of(await world.client.post("/jobs/j/trigger", json={}))["executionId"]
            )
            assert found["error"] == ("template" if gone else None)
            if not gone:
                assert world.target.seen[-1].headers["a"] == OTHER
                data_of(await world.client.delete("/secrets/TOKEN"))
        assert len(world.target.at("/run")) == 1
        assert leaks(await read_all(world, ["j"])) == []
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"TOKEN" in kept
    assert leaks(kept) == []


async def test_an_alert_has_secrets() -> None:
    """In address, headers and body, as the notifications of jobs; the settings show its address without."""
    alert = {"name": "ops", "on": ["finalFailed"], **using("service://jobswork/alert", 200)}
    alert["body"] = {"s": "${secrets.CANARY}"}
    async with running(secrets=GIVEN, alerts=[alert]) as world:
        world.target.always("/run", 500)
        posted = definition(request=[{"url": "service://jobswork/run"}])
        data_of(await world.client.post("/jobs/j", json=posted), 201)
        data_of(await world.client.post("/jobs/j/trigger", json={}))

        async def find_told() -> list[Seen]:
            await world.advance(1)
            return world.target.at("/alert")

        (told,) = await world.until(find_told)
        assert (told.query["k"], told.headers["authorization"]) == (CANARY, f"Bearer {OTHER}")
        assert told.json == {"s": CANARY}
        assert leaks(await read_all(world, ["j"])) == []


async def test_plain_credentials_in_the_history_are_for_editors() -> None:
    """As they are in the definition; operators see the parameters, with which they replay."""
    plain = "canary-7f3a"
    async with running(server={"key": "the-key-of-this-service"}, history={"body_bytes": 60}) as world:
        admin = world.caller(headers={"Authorization": "Bearer the-key-of-this-service"})
        world.target.always("/echo", lambda seen: Reply(200, {"shop": 1, "accessToken": plain}))
        long = {"password": plain, "filler": "x" * 200}
        steps = [
            {"url": f"{world.target.url}/echo?sessionToken={plain}", "body": {"password": plain}},
            {"url": f"{world.target.url}/echo", "headers": {"X-Shop-Secret": plain}, "body": long},
        ]
        told = [{"url": f"{world.target.url}/told?sessionToken={plain}"}]
        posted = definition(request=steps, notification=told, keepResult=True)
        data_of(await admin.post("/jobs/one", json=posted), 201)
        execution = data_of(await admin.post("/jobs/one/trigger", json={"password": plain}))["executionId"]
        await world.settle()
        child = {"parentJob": "one", "parentJobExecution": 1}
        data_of(await admin.post("/jobs/two", json=definition(request=steps, **child)), 201)
        data_of(await admin.post("/jobs/two/trigger", json={"password": plain}))
        await world.settle()
        children = "/main/getChildJobLogs?parentJobId=one&execution=1"
        for role, params in (("viewer", "***"), ("operator", plain), ("editor", plain)):
            made = data_of(await admin.post("/keys", json={"name": role, "role": role}), 201)
            caller = world.caller(headers={"Authorization": f"Bearer {made['key']}"})
            shown = data_of(await caller.get(f"/executions/{execution}"))
            assert shown["params"] == {"password": params}
            del shown["params"]
            text = json.dumps(shown)
            assert (plain in text) is (role == "editor"), text
            assert "/echo?sessionToken=" in text
            assert '"shop' in text.replace("\\", "")
            texts = [
                (await caller.get(path)).text
                for path in (f"/executions/{execution}/log", "/deliveries", children)
            ]
            assert ["/told" in texts[1], "/echo" in texts[0], "/echo" in texts[2]] == [True] * 3
            assert [plain in text for text in texts[:2]] == [role == "editor"] * 2
            assert (plain in texts[2]) is (role != "viewer")
            for query in ("", "?download=true"):
                text = (await caller.get(f"/executions/{execution}/result{query}")).text
                assert ('"shop"' in text, plain in text) == (True, role == "editor"), text


async def test_a_hidden_variable_names_no_queue() -> None:
    """Which lists and metrics would show: the job is refused by its place, without a word of the value."""
    async with running(env={"default": {"SHOP_TOKEN": "tok-of-env"}}) as world:
        job = definition(request=[{"url": "queue://${SHOP_TOKEN}"}])
        refused = await world.client.post("/jobs/one", json=job)
        assert (refused.status_code, pointers(refused)) == (422, [("/request/0/url", "invalid")])
        assert "${SHOP_TOKEN} is hidden" in refused.text
        assert "tok-of-env" not in refused.text
