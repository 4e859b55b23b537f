"""The token of a feedback URL, wherever a job puts the URL and whatever its target makes of it."""

import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.attack.service import Service, job, open_service
from tests.faults.processes import ROOT
from tests.unit.transport.servers import Handler, Peer, Stage

FEEDBACK = "${schedulingFeedbackUrl}"
TOKEN = re.compile(r"[0-9a-f]{64}")
STEPS: dict[str, dict[str, Any]] = {
    "path": {"url": f"/hooks/{FEEDBACK}/end"},
    "query": {"url": f"/hooks?{FEEDBACK}"},
    "parameter": {"url": f"/hooks?to={FEEDBACK}&x=1"},
    "fragment": {"url": f"/hooks#{FEEDBACK}"},
    "header": {"url": "/hooks", "headers": {"X-Report": FEEDBACK}},
    "body": {"url": "/hooks", "body": {"text": f"report to {FEEDBACK}!"}},
}


async def repeat(peer: Peer) -> None:
    """Says all that it got, in its answer's head and in the report that it makes of it."""
    while True:
        request = (await peer.read()).decode("latin-1")
        first = request.partition("\r\n")[0].split(" ")[1]
        given = next((line for line in request.split("\r\n") if "token" in line), first)
        said = json.dumps({"status": "failed", "error": given[-200:], "message": request, "progress": given})
        head = f"HTTP/1.1 200 OK\r\nX-Repeated: {given}\r\nContent-Length: {len(said)}\r\n\r\n"
        await peer.say((head + said).encode("latin-1"))


async def repeat_bare(peer: Peer) -> None:
    """Says the token alone that it was given, and in names with escapes, not the URL in which it was."""
    while True:
        token = next(iter(TOKEN.findall((await peer.read()).decode("latin-1"))), "")
        said = f'{{"status":"failed","error":"{token}","message":"bad {token}","progress":"{token}",'
        said += f'"{token}":"?\\u0074oken={token}"}}'
        head = f"HTTP/1.1 200 OK\r\nX-Bare: {token}\r\nContent-Length: {len(said)}\r\n\r\n"
        await peer.say((head + said).encode("latin-1"))


def shown(service: Service, *command: str) -> str:
    """What a command of the command line prints."""
    done = subprocess.run(
        [sys.executable, "-m", "scheduler_service", *command, "--url", service.url],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout + done.stderr


@pytest.mark.parametrize("answer", [repeat, pytest.param(repeat_bare, marks=pytest.mark.long)])
async def test_it_is_shown_nowhere(stage: Stage, tmp_path: Path, answer: Handler) -> None:
    """Neither in lists and the history, nor by the command line, nor in the service's log."""
    target = await stage.server(answer)
    url = target.url
    async with open_service(tmp_path / "data") as service:
        for name, step in STEPS.items():
            whole = {**step, "url": f"{url}{step['url']}"}
            check = {"checkUrl": f"{url}/state/{FEEDBACK}", "async": True, "checkRateSeconds": 0.1}
            told = {"notification": [{"url": f"{url}/told/{FEEDBACK}"}]}
            await service.create(job(name, "", request=[whole], **check, **told))

        async def have_ended() -> bool:
            page = await service.run.read("/executions", state="terminated", limit=500)
            return len(page["items"]) == len(STEPS)

        await service.run.until(have_ended, "all have ended")
        sent = b"".join(target.requests).decode("latin-1")
        assert len(set(TOKEN.findall(sent))) == len(STEPS), "each job has sent its own"
        read = partial(service.run.ask, "GET")
        texts = [(await read(path, params={"limit": 500})).text for path in ("/jobs", "/executions")]
        texts.append((await read("/deliveries", params={"limit": 500})).text)
        for one in json.loads(texts[1])["data"]["items"]:
            texts += [(await read(f"/executions/{one['executionId']}{end}")).text for end in ("", "/log")]
        texts += [shown(service, "executions", "list"), shown(service, "executions", "get", "path#1")]
        texts += [shown(service, "executions", "log", "path#1"), Path(service.run.order.log).read_text()]
        for text in texts:
            assert TOKEN.findall(text) == []
        assert any("token%3D***" in text for text in texts)


async def hand_on(peer: Peer) -> None:
    """Answers the token alone that it was given, which the next request then has."""
    while True:
        request = (await peer.read()).decode("latin-1")
        said = json.dumps({"ref": next(iter(TOKEN.findall(request)), "")})
        head = f"HTTP/1.1 200 OK\r\nX-Bare: {said}\r\nContent-Length: {len(said)}\r\n\r\n"
        await peer.say((head + said).encode("latin-1"))


@pytest.mark.long
async def test_one_that_is_handed_on_is_shown_nowhere(stage: Stage, tmp_path: Path) -> None:
    """A later step and a notification send what the first was answered; their targets repeat it."""
    target = await stage.server(hand_on)
    ref = "${responses[0].ref}"
    first = {"url": f"{target.url}/first", "body": {"report": FEEDBACK}}
    later = {"url": f"{target.url}/later/{ref}?r={ref}", "headers": {"X-R": ref}, "body": {"r": ref}}
    told = {
        "notification": [{"url": f"{target.url}/told/{ref}", "headers": {"X-R": ref}, "body": {"r": ref}}]
    }
    async with open_service(tmp_path / "data") as service:
        late = {"async": True, "timeoutSeconds": 1.5, **told}
        await service.create(job("handed", "", request=[first, later], **late))

        async def has_ended() -> bool:
            return bool((await service.run.read("/executions", state="terminated"))["items"])

        async def is_told() -> bool:
            told_of = (await service.run.read("/deliveries"))["items"]
            return bool(told_of) and all(one["state"] == "delivered" for one in told_of)

        await service.run.until(has_ended, "it has ended")
        await service.run.until(is_told, "its caller is told")
        for place in (b"/later/", b"/told/"):
            assert any(
                place in one and len(set(TOKEN.findall(one.decode("latin-1")))) == 1
                for one in target.requests
            )
        ask = partial(service.run.ask, "GET")
        (one,) = (await service.run.read("/executions"))["items"]
        whole = f"/executions/{one['executionId']}"
        detail, log, told_of = [(await ask(path)).text for path in (whole, f"{whole}/log", "/deliveries")]
        assert TOKEN.findall(detail + log + told_of) == []
        assert "/later/***?r=***" in detail
        assert "/told/***" in told_of
