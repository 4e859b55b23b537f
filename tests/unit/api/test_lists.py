"""How long lists are, and how they are sorted (SPEC section 10)."""

import httpx
import pytest

from tests.unit.api.world import definition

pytestmark = pytest.mark.anyio


async def test_a_list_has_fifty_unless_more_is_asked(client: httpx.AsyncClient) -> None:
    """`limit` is 50 where none is given, and at most 500 (SPEC section 10)."""
    named = [{"jobId": f"j{number:03}", **definition()} for number in range(501)]
    await client.post("/jobs", json=named)
    plain = (await client.get("/jobs")).json()["data"]
    assert (len(plain["items"]), plain["nextCursor"] is None) == (50, False)
    most = (await client.get("/jobs?limit=500")).json()["data"]
    assert (len(most["items"]), most["nextCursor"] is None) == (500, False)
