"""A service in memory, and commands of `punctual jobs` on it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from client_sdk.client.call_retries import Patience
from client_sdk.client.connection import Connection
from scheduler_service.cli.errors import CommandError
from scheduler_service.cli.jobs import apply_jobs
from scheduler_service.cli.service_connection import ApiConnection
from scheduler_service.engine.program import Surroundings
from scheduler_service.services.shared_calendars import Calendars
from tests.manual_clock import ManualClock
from tests.unit.api.stores import START
from tests.unit.api.world import World, definition
from tests.unit.services.memory_calendars import MemoryCalendars

NINE = {"period": "0 0 9 * * ?", "calendar": "office"}
TEAM = {"team": "shop"}


class Wire(httpx.AsyncBaseTransport):
    """The way to the API. `before` and `after` see each request that is a change, by its number."""

    def __init__(self, world: World) -> None:
        self._inner = httpx.ASGITransport(world.api, client=("127.0.0.1", 1234))
        self.changes: list[str] = []
        self.before = self.after = do_nothing

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        is_change = request.method != "GET" and not request.url.path.endswith(("/compare", "/preview"))
        if not is_change:
            return await self._inner.handle_async_request(request)
        self.changes.append(f"{request.method} {request.url.path}")
        number = len(self.changes)
        await self.before(number)
        response = await self._inner.handle_async_request(request)
        await self.after(number)
        return response


async def do_nothing(number: int) -> None:
    """Lets a request pass."""


class Killed(BaseException):
    """The command is killed."""


class Moved:
    """A service in memory, and the commands `jobs apply` and `jobs diff` on it."""

    def __init__(self, **settings: Any) -> None:
        self.key: str | None = None
        self.table = MemoryCalendars()
        calendars = Calendars(table=self.table, clock=ManualClock(wall=START))
        self.world = World(
            surroundings=Surroundings(find_calendar=calendars.find),
            calendars=calendars,
            tell_calendar=lambda stored: None,
            **settings,
        )
        self.wire = Wire(self.world)

    def run(self, command: Callable[..., None], *files: Path | str, **options: Any) -> None:
        connection = ApiConnection(
            Connection(
                url="http://127.0.0.1:8000",
                key=self.key,
                timeout=5,
                patience=Patience(retries=0),
                transport=self.wire,
            )
        )
        try:
            command(connection, [Path(file) for file in files], **options)
        finally:
            connection.close()

    def apply(self, *files: Path | str, **options: Any) -> None:
        self.run(apply_jobs, *files, **options)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        found: list[Any] = []

        def send(connection: ApiConnection, files: list[Path]) -> None:
            found.append(connection.send(method, path, body=body))

        self.run(send)
        return found[0]

    def jobs(self) -> dict[str, Any]:
        """What there is: each job with its name."""
        items = self.ask("GET", "/jobs?limit=500")["items"]
        return {item["jobId"]: item["jobName"] for item in items}


def write(name: str, *documents: Any) -> Path:
    """A file with these documents, as YAML, of which JSON is a part."""
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n---\n".join(json.dumps(one) for one in documents), encoding="utf-8")
    return path


def job(job_id: str, **members: Any) -> dict[str, Any]:
    """A job of the team."""
    return {"jobId": job_id, "labels": TEAM, **definition(**members)}


def code_of(act: Callable[[], None]) -> int:
    """How a command ends."""
    try:
        act()
    except CommandError as error:
        return error.code
    except BaseException as error:  # noqa: BLE001 - typer's way to end
        return int(error.exit_code)  # type: ignore[attr-defined]
    return 0
