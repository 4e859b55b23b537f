"""An instance of the services of the source's example, as a process: `… instance NAME SCHEDULER TIMERS`.

It declares what stands in the file TIMERS at that moment, says each call when it begins and when it ends, and
holds its work between `POST /hold` and `POST /release`. Told to end, it drains as the SDK has it.
"""

import asyncio
import json
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn

from client_sdk import Client
from client_sdk.models import InstanceRegistration, ServiceDeclaration
from client_sdk.target.registration import Registration
from client_sdk.target.service import SignalDrain

WORK = "/main/resultHandleSchool"
ANSWERS: dict[str, object] = {
    WORK: {"student": [{"number": 1}]},
    "/main/provideCheckUrl": {"status": "succeed"},
}
HEARTBEAT, REGISTRATION = 0.5, 1.0


def say(event: str, **keys: object) -> None:
    """One line for the test."""
    print(json.dumps({"event": event, **keys}), flush=True)


class Application:
    """The target of the example's requests, checks and notifications, word for word."""

    def __init__(self) -> None:
        self.is_draining = False
        self._may_go = asyncio.Event()
        self._may_go.set()
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers one call."""
        while (await receive()).get("more_body"):
            pass
        path: str = scope["path"]
        if path in ("/hold", "/release"):
            self._may_go.clear() if path == "/hold" else self._may_go.set()
            await answer(send, 200, {})
        elif self.is_draining:
            say("sent away", path=path)
            await answer(send, 503, {}, (b"x-instance-state", b"draining"))
        else:
            await self._work(path, send)

    async def rest(self) -> None:
        """Returns when nothing runs any more."""
        await self._idle.wait()

    async def _work(self, path: str, send: Any) -> None:
        self._running += 1
        self._idle.clear()
        say("begun", path=path)
        try:
            if path == WORK:
                await self._may_go.wait()
            found = [value for place, value in ANSWERS.items() if path.startswith(place)]
            await answer(send, 200, found[0] if found else {})
            say("ended", path=path)
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()


async def answer(send: Any, status: int, value: object, *further: tuple[bytes, bytes]) -> None:
    """JSON."""
    body = json.dumps(value).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *further]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def register(client: Client, service: str, name: str, address: str, timers: Path | None) -> Registration:
    """One of the two services of this process; `timers` is read anew for each registration."""

    def declare() -> tuple[ServiceDeclaration, InstanceRegistration]:
        declared = {"timers": json.loads(timers.read_text())} if timers else {}
        about = InstanceRegistration.model_validate({"address": address, **declared})
        return ServiceDeclaration(route="round_robin"), about

    return Registration(
        services=client.services,
        name=service,
        instance_id=name,
        declare=declare,
        load=lambda: 0.0,
        heartbeat=HEARTBEAT,
        registration=REGISTRATION,
    )


async def main(name: str, url: str, timers: Path) -> None:
    """Serves until it is told to end."""
    application, listener = Application(), socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    config = uvicorn.Config(application, log_level="error", lifespan="off")
    async with Client(url) as client:
        registrations = [
            register(client, "jobswork", name, address, timers),
            register(client, "jobsclient", name, address, None),
        ]

        async def stop() -> None:
            application.is_draining = True
            for one in registrations:
                await one.drain()
            say("draining")
            await application.rest()
            for one in registrations:
                await one.stop()

        serving = asyncio.create_task(uvicorn.Server(config).serve([listener]))
        for one in registrations:
            await one.start()
        SignalDrain(numbers=[signal.SIGTERM], stop=stop).install()
        say("ready", address=address)
        await serving


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
