"""What is sent is signed, as an implementation of Standard Webhooks verifies that is not ours (14)."""

import base64
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError

from client_sdk.signing import Verifier
from tests.unit.client_sdk.signed import NEW, OLD
from tests.wire.service import World, data_of, definition, pointers, running
from tests.wire.target import HELD, Reply, Seen, Target

HOOKS, OWN = NEW, "whsec_" + OLD.removeprefix("whsec_")[:-1] + "0"
SECRETS = {"default": {"hooks": HOOKS, "both": [HOOKS, OLD], "own": OLD, "text": "no base64 at all"}}
URL = "service://jobswork"
SIGNED = {"url": f"{URL}/run", "sign": "hooks"}


@asynccontextmanager
async def signing(**settings: Any) -> AsyncIterator[World]:
    """A service with secrets, in the present: the other implementation has no clock but the machine's."""
    async with running(wall=round(time.time() * 1_000), **{"secrets": SECRETS} | settings) as world:
        yield world


def verified(seen: Seen, secret: str) -> bool:
    """Whether the receiver would take a request for what this secret has signed."""
    try:
        Webhook(secret).verify(seen.body, seen.headers, json_parse=False)
    except WebhookVerificationError:
        return False
    return True


def ids(target: Target, path: str, *secrets: str) -> list[str]:
    """The ids of the requests for `path`, each verified with each of these secrets."""
    found = target.at(path)
    assert found, path
    assert all(verified(one, secret) for one in found for secret in secrets), path
    return [one.headers["webhook-id"] for one in found]


async def create(world: World, **members: Any) -> None:
    data_of(await world.client.post("/jobs/j", json=definition(**members)), 201)


async def trigger(world: World) -> str:
    """One execution; its id."""
    return str(data_of(await world.client.post("/jobs/j/trigger"))["executionId"])


async def test_steps_and_notifications_are_signed_each_try_anew() -> None:
    """With one secret or two; the id stays, its time does not; what names no secret is not signed."""
    async with signing() as world:
        target = world.target
        target.answers("/run", 503, 503)
        target.answers("/told", 500, 500)
        plain = {"url": f"{URL}/plain", "method": "PUT", "body": {"text": "作业"}}
        both = {**plain, "url": f"{URL}/both", "sign": "both"}
        await create(
            world,
            request=[SIGNED, plain, both],
            retry=[{"errorEquals": "5xx", "intervalSeconds": 0}],
            notification=[{"url": f"{URL}/told", "sign": "own", "stateEquals": "finalSucceed"}],
        )
        execution = await world.ended(await trigger(world))
        await world.advance(60)
        assert execution["state"] == "succeeded"
        (step,) = set(ids(target, "/run", HOOKS))
        assert len(target.at("/run")) == 3
        assert len({one.headers["webhook-timestamp"] for one in target.at("/run")}) == 3
        assert step == target.at("/run")[0].headers["idempotency-key"]
        ids(target, "/both", HOOKS, OLD)
        assert "webhook-signature" not in target.at("/plain")[0].headers
        assert len(set(ids(target, "/told", OLD))) == 1
        assert len({one.headers["webhook-timestamp"] for one in target.at("/told")}) == 3


async def test_checks_and_cancellations_are_signed() -> None:
    """Also where the place of the check comes from the answer to a step: with what signed that."""
    async with signing() as world:
        target = world.target
        target.always("/run", Reply(202, headers={"Location": "/state"}))
        target.answers("/state", Reply(202), Reply(200, {"status": "succeed"}))
        target.answers("/check", Reply(200, {"status": ""}), HELD)
        await create(world, **{"async": True}, request=[SIGNED])
        started = await trigger(world)
        await world.advance(3)
        assert (await world.ended(started))["state"] == "succeeded"
        assert len(ids(target, "/state", HOOKS)) == 2
        changed = {
            "async": True,
            "checkUrl": {"url": f"{URL}/check", "sign": "own"},
            "cancelUrl": {"url": f"{URL}/cancel", "sign": "own"},
        }
        data_of(await world.client.post("/jobs/j/update", json=definition(**changed, request=[SIGNED])))
        started = await trigger(world)
        await world.advance(2)
        data_of(await world.client.post(f"/executions/{started}/cancel"), 200)
        await world.settle()
        assert len(ids(target, "/check", OLD)) == 2
        assert ids(target, "/cancel", OLD) == [target.at("/cancel")[0].headers["idempotency-key"]]


async def test_a_location_is_asked_with_the_signature_of_its_step_at_home_alone() -> None:
    """What a service's own secret has signed, too; another origin that may be asked gets none."""
    async with signing() as world, Target(lambda: 0) as shop, Target(lambda: 0) as away:
        world.instances.update(shop=shop, away=away)
        data_of(await world.client.put("/services/shop", json={"signing": "own"}), 201)
        data_of(await world.client.put("/services/shop/instances/1", json={"address": shop.url}), 201)
        for target in (shop, away):
            target.always("/run", Reply(202, headers={"Location": "/state"}))
            target.always("/state", Reply(200, {"status": "succeed"}))
        shop.always("/go", Reply(307, headers={"Location": f"{away.url}/run"}))
        for place, step in (
            (shop, {"url": "service://shop/run"}),
            (away, {"url": "service://shop/go", "followRedirects": 1}),
        ):
            path = f"/jobs/{step['url'].rpartition('/')[2]}"
            posted = definition(**{"async": True}, request=[step])
            data_of(await world.client.post(path, json=posted), 201)
            started = data_of(await world.client.post(f"{path}/trigger"))["executionId"]
            await world.advance(3)
            assert (await world.ended(started))["state"] == "succeeded"
            assert len(place.at("/state")) == 1
        assert len(ids(shop, "/state", OLD)) == 1
        assert not any("webhook-signature" in seen.headers for seen in away.seen)


async def test_alerts_are_signed() -> None:
    """An alert whose secret is missing keeps nobody from the start."""
    alerts = [
        {"name": "ops", "on": ["finalFailed"], "url": f"{URL}/hook", "sign": "hooks"},
        {"name": "lost", "on": ["finalFailed"], "url": f"{URL}/lost", "sign": "none"},
    ]
    async with signing(alerts=alerts) as world:
        assert [keys for event, keys in world.log if event == "alert_not_sent"] == [
            {"alert": "lost", "error": "alerts.1.sign: sign names no secret: there is no 'none'; add it, or "
             "correct the name"}
        ]  # fmt: skip
        world.target.always("/run", 500)
        await create(world)
        await world.ended(await trigger(world))
        for _ in range(60):
            if world.target.at("/hook"):
                break
            await world.service.jobs.flush()  # it is written at times of its own
            await world.advance(1)
        assert len(ids(world.target, "/hook", HOOKS)) == 1
        assert world.target.at("/lost") == []


async def test_calls_of_a_service_are_signed_with_its_secret() -> None:
    """To each instance, one chosen or all, from every kind of request, unless that names its own."""
    async with signing() as world, Target(lambda: 0) as one, Target(lambda: 0) as other:
        world.instances.update(one=one, other=other)
        shown = data_of(await world.client.put("/services/shop", json={"signing": "own"}), 201)
        assert shown["signing"] == "own"
        for name, target in world.instances.items():
            path = f"/services/shop/instances/{name}"
            data_of(await world.client.put(path, json={"address": target.url}), 201)
        steps = [{"url": "service://shop/all", "route": "broadcast"}, {"url": "service://shop/one"}]
        further = [
            {"url": "service://shop/hooks", "sign": "hooks"},
            {"url": "http://named/x", "serviceName": "shop"},
        ]
        await create(world, request=[*steps, *further], notification=[{"url": "service://shop/told"}])
        assert (await world.ended(await trigger(world)))["state"] == "succeeded"
        await world.settle()
        for target in (one, other):
            assert len(ids(target, "/all", OLD)) == 1
            for seen in target.seen:
                assert verified(seen, HOOKS if seen.path == "/hooks" else OLD), seen.path
        assert {seen.path for seen in one.seen + other.seen} == {
            "/all", "/one", "/hooks", "/named/x", "/told",
        }  # fmt: skip
        for target in (one, other):
            target.seen.clear()
        data_of(await world.client.put("/services/shop", json={}))
        await world.ended(await trigger(world))
        await world.settle()
        signed = [seen.path for seen in one.seen + other.seen if "webhook-signature" in seen.headers]
        assert (signed, len(one.seen + other.seen)) == (["/hooks"], 7)


async def test_an_unknown_secret_is_refused_where_it_is_posted() -> None:
    """Its place is named; nothing of a secret that cannot sign is said."""
    async with signing() as world:
        for sign, code in (("none", "unknown_secret"), ("text", "unknown_secret"), ("", "empty")):
            posted = definition(request=[SIGNED | {"sign": sign}], notification=[SIGNED | {"sign": sign}])
            refused = await world.client.post("/jobs/j", json=posted)
            assert refused.status_code == 422
            assert sorted(pointers(refused)) == [("/notification/0/sign", code), ("/request/0/sign", code)]
            assert "base64 at all" not in refused.text
        refused = await world.client.put("/services/shop", json={"signing": "none"})
        assert pointers(refused) == [("/signing", "unknown_secret")]


async def test_a_secret_that_is_gone_fails_the_attempt_by_name(tmp_path: Path) -> None:
    """The job stays a job; a secret that is put in again, or another one, signs the next request."""
    file = tmp_path / "late"
    file.write_text(f"{HOOKS}\n")
    async with signing(secrets={}, secrets_dir=str(tmp_path)) as world:
        posted = definition(request=[SIGNED | {"sign": "late"}])
        data_of(await world.client.post("/jobs/j", json=posted), 201)
        file.unlink()
        failed = await world.ended(await trigger(world))
        assert (failed["state"], failed["error"], failed["failureType"]) == (
            "terminated", "template", "template",
        )  # fmt: skip
        assert "there is no 'late'" in failed["attempts"][0]["message"]
        assert world.target.seen == []
        refused = await world.client.post("/jobs/k", json=posted)
        assert pointers(refused) == [("/request/0/sign", "unknown_secret")]
        file.write_text(OLD)
        assert (await world.ended(await trigger(world)))["state"] == "succeeded"
        assert len(ids(world.target, "/run", OLD)) == 1


async def test_what_is_sent_again_is_signed_again() -> None:
    """A delivery that was given up, an execution that is replayed, a trial."""
    async with signing(notification={"retries": 0}) as world:
        world.target.answers("/told", 500)
        told = {"url": f"{URL}/told", "sign": "own", "stateEquals": "finalSucceed"}
        await create(world, request=[SIGNED], notification=[told])
        started = await trigger(world)
        await world.ended(started)
        await world.settle()
        (delivery,) = data_of(await world.client.get("/deliveries"))["items"]
        data_of(await world.client.post(f"/deliveries/{delivery['deliveryId']}/resend"))
        assert len(set(ids(world.target, "/told", OLD))) == 1
        assert len(world.target.at("/told")) == 2
        data_of(await world.client.post(f"/executions/{started}/replay"))
        await world.settle()
        trial = {"definition": definition(jobId="t", request=[SIGNED])}
        tried = await world.client.post("/definitions/try", json=trial)
        assert tried.status_code < 300, tried.text
        await world.settle()
        assert len(set(ids(world.target, "/run", HOOKS))) == 3


async def test_a_secret_is_nowhere_but_in_the_signature() -> None:
    """Neither the secrets nor what they sign with are in answers, the history, or the log."""
    async with signing(signing={"md5_secret": "an old peer's", "md5_enabled": True}) as world:
        world.target.always("/run", 500)
        await create(world, request=[SIGNED, SIGNED | {"sign": "md5"}])
        started = await trigger(world)
        await world.ended(started)
        told = ""
        for path in (f"/executions/{started}", "/jobs/j", "/settings", "/events?limit=10", "/services"):
            told += (await world.client.get(path)).text if "events" not in path else ""
        for secret in (HOOKS, OLD.removeprefix("whsec_"), "an old peer's"):
            assert secret not in told + repr(world.log)
        signature = world.target.at("/run")[0].headers["webhook-signature"]
        assert signature.removeprefix("v1,") not in told + repr(world.log)


async def test_our_verifier_takes_what_is_signed() -> None:
    """Once; one that was changed, or comes late, is refused."""
    async with signing() as world:
        await create(world, request=[SIGNED | {"body": {"pay": 1}}])
        await world.ended(await trigger(world))
        (seen,) = world.target.at("/run")
        verifier = Verifier(HOOKS, clock=world.seconds)
        assert verifier.accept(seen.headers, seen.body) == seen.headers["idempotency-key"]


async def test_a_secret_is_its_tenant_s_own() -> None:
    """Of the same name too: jobs, services and what is refused know nothing of the others'."""
    secrets = {"default": {"hooks": HOOKS, "alone": HOOKS}, "team": {"hooks": OLD}}
    key = "the-key-of-the-settings"
    async with signing(secrets=secrets, server={"key": key}) as world, Target(lambda: 0) as shop:
        world.instances["shop"] = shop
        admin = {"Authorization": f"Bearer {key}"}
        made = await world.client.post(
            "/keys", json={"name": "t", "role": "admin", "tenant": "team"}, headers=admin
        )
        own = {"Authorization": f"Bearer {data_of(made, 201)['key']}"}
        wanted = {"name": "shop", "role": "editor", "service": "shop"}
        of_shop = {}
        for headers in (admin, own):
            made = await world.client.post("/keys", json=wanted, headers=headers)
            of_shop[headers["Authorization"]] = {"Authorization": f"Bearer {data_of(made, 201)['key']}"}
        for headers, secret in ((admin, HOOKS), (own, OLD)):
            shop.seen.clear()
            world.target.seen.clear()
            async with world.caller(headers=headers) as client:
                data_of(await client.put("/services/shop", json={"signing": "hooks"}), 201)
                path = "/services/shop/instances/1"
                by = of_shop[headers["Authorization"]]
                data_of(await client.put(path, json={"address": shop.url}, headers=by), 201)
                told = [{"url": "service://shop/told", "stateEquals": "finalSucceed"}]
                steps = [{"url": "service://shop/run"}, SIGNED]
                data_of(await client.post("/jobs/j", json=definition(request=steps, notification=told)), 201)
                data_of(await client.post("/jobs/j/trigger"))
                await world.settle()
                for target, path in ((shop, "/run"), (shop, "/told"), (world.target, "/run")):
                    assert len(ids(target, path, secret)) == 1, (path, secret)
        async with world.caller(headers=own) as client:
            posted = definition(request=[SIGNED | {"sign": "alone"}])
            assert pointers(await client.post("/jobs/k", json=posted)) == [
                ("/request/0/sign", "unknown_secret")
            ]
            refused = await client.put("/services/shop", json={"signing": "alone"})
            assert pointers(refused) == [("/signing", "unknown_secret")]


async def test_a_stored_secret_signs_and_is_replaced_without_a_gap() -> None:
    """From its answer on; with `keepEarlier` both sign, until it is stored without."""
    key = base64.b64encode(b"k" * 32).decode()
    async with signing(secrets={}, secrets_key=[key]) as world:
        posted = definition(request=[SIGNED | {"sign": "late"}])
        assert pointers(await world.client.post("/jobs/j", json=posted)) == [
            ("/request/0/sign", "unknown_secret")
        ]
        for stored, secrets in (
            ({"value": OLD}, [OLD]),
            ({"value": HOOKS, "keepEarlier": True}, [HOOKS, OLD]),
            ({"value": HOOKS}, [HOOKS]),
        ):
            assert (await world.client.put("/secrets/late", json=stored)).is_success
            await world.client.post("/jobs/j", json=posted)
            world.target.seen.clear()
            assert (await world.ended(await trigger(world)))["state"] == "succeeded"
            (seen,) = world.target.at("/run")
            assert [verified(seen, secret) for secret in (HOOKS, OLD)] == [
                secret in secrets for secret in (HOOKS, OLD)
            ]
            assert len(seen.headers["webhook-signature"].split(" ")) == len(secrets)
