"""Kills a service in the middle of a chain, starts it again, and shows that nothing was repeated."""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from scheduler_service.app.listener import listen
from scheduler_service.demo.child_programs import free_ports, tied_command
from scheduler_service.demo.demo_jobs import CREATOR, Receive, Scope, Send, answer_json, read_body
from scheduler_service.domain.errors import PunctualError
from scheduler_service.http_server.server import Server
from scheduler_service.ports.log import Log

HOST = "127.0.0.1"
JOB = "demo-parcel"
STEPS = ("pick", "pack", "ship")
HELD = "pack"
PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.1
OF_SETTINGS = ("PUNCTUAL_", "OTEL_", "DAPR_", "APP_")
TERMINAL = frozenset({"succeeded", "terminated", "cancelled", "skipped"})


MADE_ANEW = frozenset({b"traceparent", b"x-scheduling-deadline"})
"""Headers that a request has anew when it is sent again (SPEC section 4)."""


class SeenRequest(NamedTuple):
    """A request: the last segment of its path, its key, and all of it but for `MADE_ANEW`."""

    step: str
    key: str
    content: bytes


class Witness:
    """Answers `POST …/STEP`; the first request for the step `held` gets no answer before `release`."""

    def __init__(self, *, held: str) -> None:
        self.seen: list[SeenRequest] = []
        self.done: list[str] = []
        self._held = held
        self._answers: dict[str, dict[str, Any]] = {}
        self._came = asyncio.Condition()
        self._gate = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One ASGI call."""
        if scope["type"] != "http":
            return
        one = _read_head(scope, await read_body(receive))
        is_first = one.key not in {other.key for other in self.seen}
        async with self._came:
            self.seen.append(one)
            self._came.notify_all()
        if one.step == self._held and is_first:
            await self._gate.wait()
        await answer_json(send, 200, self._do(one))

    async def wait_for(self, step: str, times: int) -> None:
        """Returns when so many requests for `step` have come."""
        async with self._came:
            await self._came.wait_for(lambda: self.count(step) >= times)

    def count(self, step: str) -> int:
        """How many requests for `step` have come."""
        return len(self.of(step))

    def of(self, step: str) -> list[SeenRequest]:
        """The requests for `step`, in the order in which they came."""
        return [one for one in self.seen if one.step == step]

    def release(self) -> None:
        """Lets go of the answer that is held; its caller may be gone."""
        self._gate.set()

    def _do(self, one: SeenRequest) -> dict[str, Any]:
        """Does it, or answers from memory what was done under this key."""
        if one.key not in self._answers:
            self.done.append(one.step)
            self._answers[one.key] = {"step": one.step, "number": len(self.done)}
        return self._answers[one.key]


def _read_head(scope: Scope, body: bytes) -> SeenRequest:
    headers = [(name, value) for name, value in scope["headers"] if name not in MADE_ANEW]
    path = scope["path"].encode() + b"?" + scope["query_string"]
    lines = [scope["method"].encode() + b" " + path, *(name + b": " + value for name, value in headers)]
    key = next((value for name, value in headers if name == b"idempotency-key"), b"")
    return SeenRequest(scope["path"].rpartition("/")[2], key.decode(), b"\r\n".join([*lines, b"", body]))


class NotShown(PunctualError):
    """The act could not be shown, and why."""


class CrashAct:
    """Shows a crash that is survived, line by line through `write`; leaves neither process nor file."""

    def __init__(self, *, write: Callable[[str], None], log: Log) -> None:
        self._write = write
        self._log = log

    async def run(self) -> None:
        """Returns when all is told; a fault of this act is a line. Cancelled, it cleans up as well."""
        try:
            with tempfile.TemporaryDirectory(prefix="punctual-demo-") as folder:
                async with asyncio.timeout(2 * PATIENCE_SECONDS), self._witness() as (witness, target):
                    await self._play(Path(folder), witness, target)
        except (NotShown, OSError, httpx.HTTPError, TimeoutError) as error:
            self._say(f"this could not be shown: {error or 'it took too long'}")

    async def _play(self, folder: Path, witness: Witness, target: str) -> None:
        (port,) = free_ports(1)
        base = f"http://{HOST}:{port}"
        async with httpx.AsyncClient(base_url=base, trust_env=False, timeout=10) as client:
            async with self._service(port, folder, client) as first:
                self._say(f"a second service, process {first.pid}, runs a chain of 3 steps with qos 1")
                await _begin(client, target)
                await witness.wait_for(HELD, 1)
                self._say(f"its target has done {STEPS[0]!r}, has got {HELD!r}, and has not answered yet")
                first.kill()
                await first.wait()
                self._say(f"kill -9 {first.pid}: the service is gone in the middle of step 2")
            witness.release()
            async with self._service(port, folder, client) as second:
                self._say(f"the same command over the same folder again: process {second.pid}")
                end = await _await_end(client)
        self._say(f"{JOB} #1 {end['state']} in its attempt {end['attempts']}, as if nothing had happened")
        for line in describe_requests(witness):
            self._say(line)

    @asynccontextmanager
    async def _witness(self) -> AsyncIterator[tuple[Witness, str]]:
        witness = Witness(held=HELD)
        listener = listen(HOST, 0)
        server = Server(witness, log=self._log)
        serving = asyncio.create_task(server.serve([listener]))
        try:
            yield witness, f"http://{HOST}:{listener.getsockname()[1]}"
        finally:
            witness.release()
            await server.end(serving, seconds=1)

    @asynccontextmanager
    async def _service(
        self, port: int, folder: Path, client: httpx.AsyncClient
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        """A process that is ready; it is killed at the end. Raises NotShown."""
        process = await _launch(port, folder)
        try:
            await _await_ready(process, client, folder)
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            await process.wait()

    def _say(self, text: str) -> None:
        self._write(f"crash: {text}")


def describe_requests(witness: Witness) -> list[str]:
    """What the target got for each step, and whether anything was done twice."""
    lines = []
    for step in STEPS:
        came = witness.of(step)
        again = ""
        if len(came) > 1:
            is_same = len({one.content for one in came}) == 1
            equal = "equal byte for byte" if is_same else "NOT EQUAL"
            again = f", with the same Idempotency-Key and {equal}: answered the second time from memory"
        lines.append(f"{step}: came {len(came)} time{'s' * (len(came) != 1)}{again}")
    keys = {one.key for one in witness.seen}
    if list(STEPS) == witness.done and len(keys) == len(STEPS):
        lines.append(f"nothing was repeated: {len(keys)} steps, {len(keys)} keys, each done once, in order")
    else:
        lines.append(f"this is not as promised: {witness.done} were done under {len(keys)} keys")
    return lines


async def _launch(port: int, folder: Path) -> asyncio.subprocess.Process:
    """`punctual serve`, which ends with this process; in a session of its own: Ctrl-C is left to this one."""
    # Settings of its own: this process's are not for it.
    environ = {name: value for name, value in os.environ.items() if not name.startswith(OF_SETTINGS)}
    serve = [sys.executable, "-m", "scheduler_service", "serve", "--port", str(port)]
    command = [*tied_command(signal.SIGKILL), *serve, "--data", str(folder / "data")]
    with (folder / "log").open("ab") as log:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environ,
            start_new_session=True,
        )


async def _await_ready(process: asyncio.subprocess.Process, client: httpx.AsyncClient, folder: Path) -> None:
    while process.returncode is None:
        with suppress(httpx.TransportError):
            if (await client.get("/health/ready")).is_success:
                return
        await asyncio.sleep(POLL_SECONDS)
    said = (folder / "log").read_text(encoding="utf-8", errors="replace").splitlines()[-1:]
    raise NotShown(f"the second service ended at its start: {' '.join(said)}")


async def _begin(client: httpx.AsyncClient, target: str) -> None:
    """Creates the job and starts its one execution. Raises NotShown."""
    steps = [
        {"method": "POST", "url": f"{target}/parcel/{step}", "body": {"article": "${trigger.article}"}}
        for step in STEPS
    ]
    definition = {"jobName": "Pick, pack, ship", **CREATOR, "qos": 1, "request": steps}
    for path, body in (
        (f"/jobs/{JOB}", definition | {"timer": {"period": "external"}}),
        (f"/jobs/{JOB}/trigger", {"article": "tea"}),
    ):
        answer = await client.post(path, json=body)
        if not answer.is_success:
            raise NotShown(f"{path} was refused: {answer.text}")


async def _await_end(client: httpx.AsyncClient) -> dict[str, Any]:
    """`state` and `attempts` of the execution, once it has ended."""
    while True:
        answer = await client.get("/executions", params={"jobId": JOB})
        items = answer.json()["data"]["items"] if answer.is_success else []
        if items and items[0]["state"] in TERMINAL:
            return {"state": items[0]["state"], "attempts": items[0].get("attemptCount", 1)}
        await asyncio.sleep(POLL_SECONDS)
