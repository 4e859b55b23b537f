"""What `/openapi.json` says, tried operation by operation over a real socket (SPEC section 10)."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings

from scheduler_service.api.application import OPERATIONS
from scheduler_service.api.request import ApiOperation
from scheduler_service.app.listener import listen
from scheduler_service.http_server.server import Server
from tests.wire.service import definition, running

FREE = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None)
FEW = settings(FREE, max_examples=2)
MANY = settings(FREE, max_examples=300)

LONGEST_WAIT = 60
ENDING = [one for one in OPERATIONS if one.media_type == "application/json"]
"""The operations whose answers end."""


def cases(operations: list[ApiOperation], usual: Callable[[ApiOperation], object]) -> list[Any]:
    """(name, settings): the `usual` operations a few times; for the long run all of them many times."""
    few = [pytest.param(one.name, FEW, id=one.name) for one in operations if usual(one)]
    return few + [
        pytest.param(one.name, MANY, id=f"{one.name}-many", marks=pytest.mark.long) for one in operations
    ]


class Served:
    """A service on a socket of loopback, in a thread of its own, and its description."""

    def __init__(self) -> None:
        self.listener = listen("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="served")
        self.schema: Any = None

    def __enter__(self) -> "Served":
        # A second of imports, which whoever only collects tests does not need.
        import requests
        from schemathesis import openapi
        from schemathesis.checks import not_a_server_error
        from schemathesis.specs.openapi import checks

        self._checks = [
            not_a_server_error,
            checks.status_code_conformance,
            checks.content_type_conformance,
            checks.response_schema_conformance,
        ]
        self._session = requests.Session()
        self._session.trust_env = False
        self._thread.start()
        assert self._ready.wait(30)
        self.schema = openapi.from_dict(self._document)
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()
        self._loop.call_soon_threadsafe(self._server.ask_to_end)
        self._thread.join(30)

    def judge(self, name: str, chosen: settings, **drawn: Any) -> None:
        """Sends cases of the operation, and judges each answer by the description."""

        @chosen
        @given(self.schema.find_operation_by_id(name).as_strategy(**drawn))
        def each(case: Any) -> None:
            leave_out_wait(case)
            leave_open(case)
            case.call_and_validate(base_url=self.url, session=self._session, checks=self._checks)

        each()

    def fill(self) -> dict[str, str]:
        """Something for every list, and ids by which it is found."""
        noted = [{"url": "service://jobsclient/told"}]
        child = definition(timer={"period": "0 * * * * ?"}, parentJob="known")
        with httpx.Client(base_url=self.url, verify=False, trust_env=False) as client:
            client.post("/jobs/known", json=definition(notification=noted, labels={"a": "b"}))
            client.post("/jobs/child", json=child)
            client.put("/jobs/known", params={"disabled": "false"})
            execution_id = client.post("/jobs/known/trigger").json()["data"]["executionId"]
            assert client.get(f"/executions/{execution_id}").status_code == 200
        return {"jobId": "known", "executionId": execution_id, "deliveryId": f"{execution_id}-0"}

    async def _serve(self) -> None:
        async with running() as world:
            self._document = (await world.client.get("/openapi.json")).json()
            self._server = Server(world.service.api, log=lambda event, **keys: None)
            self._loop = asyncio.get_running_loop()
            self._ready.set()
            await self._server.serve([self.listener])


def is_cheap(operation: ApiOperation) -> bool:
    """Whether it names nothing that has to be there; an array of definitions takes ten seconds to draw."""
    return "{" not in operation.path and operation.name != "createJobs"


def leave_out_wait(case: Any) -> None:
    """A wait that a claim may ask for would never end: the service's clock stands still."""
    wait = case.body.get("waitSeconds") if isinstance(case.body, dict) else None
    if isinstance(wait, int | float) and 0 < wait <= LONGEST_WAIT:
        case.body["waitSeconds"] = 0


def leave_open(case: Any) -> None:
    """The first key, which is an admin's, would close the service to all that follows."""
    if isinstance(case.body, dict) and case.body.get("role") == "admin":
        case.body["role"] = "viewer"


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """One service for the operations of a module."""
    with Served() as served:
        yield served


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "chosen"), cases(ENDING, is_cheap))
def test_answers_are_as_described(served: Served, name: str, chosen: settings) -> None:
    """No 5xx, no status, content type or body that the description does not name (SPEC section 10)."""
    served.judge(name, chosen)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "chosen"),
    cases([one for one in ENDING if "{" in one.path], lambda one: one.route.startswith("GET")),
)
def test_answers_about_what_is_there_are_as_described(served: Served, name: str, chosen: settings) -> None:
    """The same with ids of what exists: successes have the shape that the description gives them."""
    known = served.fill()
    path = next(one.path for one in ENDING if one.name == name)
    served.judge(name, chosen, path_parameters={key: known[key] for key in known if f"{{{key}}}" in path})


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "chosen"),
    cases([one for one in ENDING if one.query or one.body], lambda one: one.body and is_cheap(one)),
)
def test_what_is_not_as_described_is_refused_as_described(
    served: Served, name: str, chosen: settings
) -> None:
    """What the description rules out is answered by a problem that it describes (SPEC section 10)."""
    from schemathesis import GenerationMode

    served.judge(name, chosen, generation_mode=GenerationMode.NEGATIVE)
