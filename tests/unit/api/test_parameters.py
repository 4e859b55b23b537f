"""How long lists are, and how they are sorted (SPEC section 10)."""

import httpx
import pytest

from scheduler_service.domain.execution import ExecutionState
from tests.unit.api.world import definition, pointers


async def test_a_list_has_fifty_unless_more_is_asked(client: httpx.AsyncClient) -> None:
    """`limit` is 50 where none is given, and at most 500 (SPEC section 10)."""
    named = [{"jobId": f"j{number:03}", **definition()} for number in range(501)]
    await client.post("/jobs", json=named)
    plain = (await client.get("/jobs")).json()["data"]
    assert (len(plain["items"]), plain["nextCursor"] is None) == (50, False)
    most = (await client.get("/jobs?limit=500")).json()["data"]
    assert (len(most["items"]), most["nextCursor"] is None) == (500, False)


@pytest.mark.parametrize(
    ("path", "name", "values"),
    [
        ("/deliveries", "state", "pending, delivered, failed, outbox, superseded, dismissed"),
        ("/executions", "state", ", ".join(ExecutionState)),
        ("/executions", "triggeredBy", "timer, manual, replay"),
        ("/jobs/j1/executions", "state", ", ".join(ExecutionState)),
        ("/jobs/j1/executions", "triggeredBy", "timer, manual, replay"),
        ("/jobs", "state", "active, paused, finished, destroyed"),
        ("/jobs", "kind", "one_time, timing, timeing, cron, external"),
        ("/jobs", "sort", "jobId, -jobId"),
        ("/jobs", "system", "0, 1, true or false"),
    ],
)
@pytest.mark.parametrize("given", ["nonsense", "PENDING", ""])
async def test_a_filter_of_known_values_names_them(
    client: httpx.AsyncClient, path: str, name: str, values: str, given: str
) -> None:
    """Another value is 422 and not an empty list (SPEC section 10)."""
    await client.post("/jobs/j1", json=definition())
    response = await client.get(path, params={name: given})
    assert (response.status_code, pointers(response)) == (422, [(f"/{name}", "invalid")])
    assert values in response.json()["detail"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            "1769907600",
            "'2026-02-01T01:00:00Z': moments are written so (RFC 3339)",
        ),
        ("2026-10-01", "; write '2026-10-01 00:00:00'"),
        ("tomorrow", "write it like 2023-10-01 09:00:01 or 2023-10-01T09:00:01+08:00"),
    ],
)
async def test_what_is_no_moment_is_told_once_with_its_remedy(
    client: httpx.AsyncClient, given: str, said: str
) -> None:
    """As in a definition (SPEC section 3)."""
    detail = (await client.get("/executions", params={"from": given})).json()["detail"]
    assert detail.startswith(f"from {given!r} is not a time; write it like ")
    assert detail.endswith(said)
    assert detail.count(given) == (2 if given in said else 1)
