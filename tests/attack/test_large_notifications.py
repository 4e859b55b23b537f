"""Jobs whose targets say much at one moment, again and again: notified, kept for later steps, and written."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.attack.bystander import open_bystander
from tests.attack.service import Service, job, open_service
from tests.attack.target import at_one_moment, saying
from tests.unit.transport.servers import Handler, Peer, Stage

pytestmark = pytest.mark.timeout(120)
JOBS = 100
RUNNING = 2
LONG = "x" * 1_000_000
ALL = {"labels": {"answers": "large"}, "qos": 1}


def answer(body: Any) -> bytes:
    """An answer with this JSON."""
    payload = json.dumps(body).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(payload), payload)


def checked(asked: dict[bytes, int]) -> Handler:
    """Each job runs for so many checks, and says so at length; then it has succeeded."""
    running, ended = answer({"status": "", "data": LONG}), answer({"status": "succeed", "data": LONG})

    async def handle(peer: Peer) -> None:
        while True:
            path = (await peer.read()).split(b" ", 2)[1]
            asked[path] = asked.get(path, 0) + 1
            await peer.say(running if asked[path] <= RUNNING else ended)

    return handle


async def have_succeeded(service: Service) -> None:
    """Returns when all of them have, and every notification has been delivered."""

    async def look() -> bool:
        found = await service.run.read("/counts/executions", label="answers:large")
        sent = await service.run.read("/counts/deliveries")
        return found["byState"].get("succeeded") == JOBS and not sent["byState"]["pending"]

    await service.run.until(look, f"{JOBS} executions have succeeded and notified")


@pytest.mark.long
async def test_large_checks_and_their_notifications(stage: Stage, tmp_path: Path) -> None:
    """All are notified of, within 300 MiB; the last event of each is 1 MB as well."""
    asked: dict[bytes, int] = {}
    checks = await stage.server(checked(asked), backlog=JOBS)

    async def take(peer: Peer) -> None:
        while True:
            await peer.read()
            others.requests.clear()  # 400 MB
            await peer.say(answer({}))

    others = await stage.server(take, backlog=JOBS)
    async with open_service(tmp_path / "data") as service, open_bystander(service) as bystander:
        more = {"async": True, "checkRateSeconds": 0.5, "notification": [{"url": f"{others.url}/told"}]}
        jobs = [
            job(f"large-{number}", f"{others.url}/run", checkUrl=f"{checks.url}/{number}", **more, **ALL)
            for number in range(JOBS)
        ]
        created = await service.run.ask("POST", "/jobs", json=jobs)
        assert created.status_code == 200, created.text
        await have_succeeded(service)
        assert set(asked.values()) == {RUNNING + 1}
        sent = await service.run.read("/counts/deliveries")
        assert sent["byState"]["delivered"] == JOBS * (RUNNING + 2)
        await bystander.check()


@pytest.mark.long
async def test_large_responses_that_the_next_step_sends_on(stage: Stage, tmp_path: Path) -> None:
    """They are written with their executions; those that find no room fail, within 300 MiB."""
    target = await stage.server(at_one_moment(JOBS, answer({"a": LONG})), backlog=JOBS)
    last = await stage.server(saying({}), backlog=JOBS)
    async with open_service(tmp_path / "data") as service, open_bystander(service) as bystander:
        steps = [{"url": f"{target.url}/run"}, {"url": f"{last.url}/last", "body": {"x": "${a}"}}]
        jobs = [job(f"large-{number}", "", request=steps, **ALL) for number in range(JOBS)]
        created = await service.run.ask("POST", "/jobs", json=[one | {"timer": {}} for one in jobs])
        assert created.status_code == 200, created.text

        async def look() -> bool:
            found = await service.run.read("/counts/executions", label="answers:large")
            states = found["byState"]
            return bool(states.get("succeeded", 0) + states.get("terminated", 0) == JOBS)

        await service.run.until(look, f"{JOBS} executions have ended")
        page = await service.run.read("/executions", state="terminated", limit=500)
        assert {one["error"] for one in page["items"]} <= {"response_too_large"}
        await bystander.check()


KEEPING_JOBS = 150
LENGTH = 900_000
"""Together 135 MB after the first of two steps."""
AHEAD = timedelta(seconds=3)


def keeping(target: str, number: int, due: str) -> dict[str, Any]:
    """A job whose last step needs the two responses before it."""
    steps = [
        {"url": f"{target}/one"},
        {"url": f"{target}/two"},
        {"url": f"{target}/last", "body": ["${responses[0].text}", "${responses[1].text}"]},
    ]
    return job(f"kept-{number}", "", request=steps, timer={"dueTime": due})


async def ended(service: Service) -> list[dict[str, Any]]:
    """The executions of these jobs, when all have ended."""

    async def look() -> list[dict[str, Any]]:
        stats = await service.run.read("/stats")
        if stats["jobs"].get("finished", 0) < KEEPING_JOBS or stats["running"]:
            return []
        found = []
        for state in ("succeeded", "terminated"):
            page = await service.run.ask("GET", "/executions", params={"state": state, "limit": 500})
            found += [one for one in page.json()["data"]["items"] if one["jobId"].startswith("kept-")]
        return found if len(found) == KEEPING_JOBS else []

    found: list[dict[str, Any]] = await service.run.until(look, "all have ended")
    return found


@pytest.mark.long
async def test_their_sum_is_limited(stage: Stage, tmp_path: Path) -> None:
    """Each ends well, or says which limit it met; memory is bounded, and the bystander's firings succeed."""
    target = await stage.server(saying({"text": "x" * LENGTH}))
    due = (datetime.now(UTC) + AHEAD).isoformat(timespec="milliseconds")
    async with open_service(tmp_path / "data") as service, open_bystander(service) as bystander:
        jobs = [keeping(target.url, number, due) for number in range(KEEPING_JOBS)]
        answer = await service.run.ask("POST", "/jobs", json=jobs)
        assert answer.status_code == 200, answer.text
        found = await ended(service)
        errors = {one["error"] for one in found}
        assert errors == {None, "response_too_large"}
        assert all("limits.open_bytes" in one["message"] for one in found if one["error"])
        gauges = (await service.run.ask("GET", "/metrics")).text
        assert 'punctual_open_bytes{process="0"} 0' in gauges
        await service.create(
            job("after", f"{target.url}/one", request=keeping(target.url, 0, due)["request"])
        )

        async def look() -> bool:
            page = await service.run.ask(
                "GET", "/executions", params={"state": "succeeded", "jobId": "after"}
            )
            return bool(page.json()["data"]["items"])

        await service.run.until(look, "one that runs alone succeeds")
        await bystander.check()
