"""Jobs of `qos` 1 whose targets say much again and again: each answer is notified, kept and written."""

import json
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
