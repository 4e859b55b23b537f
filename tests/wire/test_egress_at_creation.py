"""A literal address that no request can reach is refused when a job is posted (SPEC sections 4 and 9)."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.rows import each_row
from tests.wire.service import World, definition, pointers, running

REFUSED = (
    "http://169.254.169.254/latest/meta-data",
    "http://10.1.2.3:8080/${path}",
    "http://0x7f000001/",
    "http://127.1/",
    "http://[::ffff:169.254.169.254]/",
    "http://metadata.google.internal/",
    "HTTPS://192.168.0.1?x=1",
)
FINE = "http://127.0.0.1:9/"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A service without configuration: loopback is allowed, private addresses are not."""
    async with running() as world:
        yield world


def places(url: str) -> list[tuple[str, dict[str, Any]]]:
    """(pointer, members) of each place of a definition in which `url` may stand."""
    return [
        ("/request/1/url", {"request": [{"url": FINE}, {"url": url}]}),
        ("/checkUrl", {"async": True, "checkUrl": url}),
        ("/checkUrl/url", {"async": True, "checkUrl": {"url": url}}),
        ("/cancelUrl/url", {"cancelUrl": {"url": url}}),
        ("/notification/0/url", {"notification": [{"url": url}]}),
    ]


@pytest.mark.parametrize("url", REFUSED)
async def test_it_is_refused_in_every_place(world: World, url: str) -> None:
    """422 at creation, with the pointer and the reason; nothing is created."""
    for pointer, members in places(url):
        answer = await world.client.post("/jobs/job", json=definition(**members))
        assert (answer.status_code, pointers(answer)) == (422, [(pointer, "egress")]), answer.text
        assert answer.json()["detail"].startswith(f"no request to {url[:12]}")
    assert (await world.client.get("/jobs/job")).status_code == 404


async def test_it_is_refused_by_every_door(world: World) -> None:
    """Creation, update, an array, the declarations of a service and of an instance."""
    client, bad = world.client, definition(jobId="bad", request=[{"url": REFUSED[0]}])
    await client.post("/jobs/there", json=definition(request=[{"url": FINE}]))
    posted = [
        await client.post("/jobs/bad", json=bad),
        await client.post("/jobs/bad", json=bad),
        await client.post("/jobs/there/update", json=bad | {"jobId": "there"}),
    ]
    assert [(one.status_code, pointers(one)) for one in posted] == [(422, [("/request/0/url", "egress")])] * 3
    array = await client.post(
        "/jobs?onExisting=update", json=[bad, bad | {"jobId": "there"}, definition(jobId="fine")]
    )
    assert [one["status"] for one in array.json()["data"]["items"]] == ["refused", "refused", "created"]
    for path in ("/services/own", "/services/own/instances/one"):
        declared = await client.put(path, json={"timers": [bad], "address": "http://127.0.0.1:9"})
        assert (declared.status_code, pointers(declared)) == (422, [("/timers/0/request/0/url", "egress")])


@each_row(
    "url",
    [
        "http://intranet/",
        "http://${HOST}/",
        "http://10.0.0.1${x}/",
        "http://$${x}/",
        "service://jobswork/10.0.0.1",
    ],
)
async def test_what_is_no_literal_address_is_left_to_the_request(url: str) -> None:
    """Names, and authorities with a variable of the environment: judged as they are sent."""
    async with running(env={"default": {"HOST": "10.0.0.1", "x": "2"}}) as world:
        answer = await world.client.post("/jobs/job", json=definition(request=[{"url": url}]))
        assert answer.status_code == 201, answer.text


async def test_what_the_settings_allow_is_taken_and_what_they_deny_is_not() -> None:
    """`egress.allow` opens private addresses, `egress.deny` closes public ones; not for services."""
    async with running(egress={"allow": ["10.0.0.0/8"], "deny": ["93.184.216.34"]}) as world:
        urls = {"http://10.0.0.1/": 201, "http://93.184.216.34/": 422, "http://127.0.0.1/": 422}
        for index, (url, status) in enumerate(urls.items()):
            answer = await world.client.post(f"/jobs/job-{index}", json=definition(request=[{"url": url}]))
            assert answer.status_code == status, url
        step = {"url": "http://169.254.169.254/run", "serviceName": "jobswork"}
        assert (await world.client.post("/jobs/own", json=definition(request=[step]))).status_code == 201
