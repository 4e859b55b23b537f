"""A key that is revoked at one node ends at all of them, with what waits under it (SPEC section 14)."""

import asyncio
import time
from pathlib import Path

import httpx
import pytest

from tests.wire.processes.placements import PLACEMENTS, Starting
from tests.wire.service import data_of

KEY = "the-key-of-the-settings"
WITHIN = 1.0
"""s: what is promised; a busy machine may take longer over the answer itself."""
SLACK = 4.0


@pytest.mark.parametrize("starting", PLACEMENTS)
async def test_it_ends_everywhere(starting: Starting, tmp_path: Path) -> None:
    """Requests, sessions, streams and claims that wait."""
    environ = {"PUNCTUAL_SERVER__KEY": KEY, "PUNCTUAL_SERVER__DRAIN_SECONDS": "0"}
    async with starting(tmp_path, environ) as placed, httpx.AsyncClient(trust_env=False, timeout=60) as http:
        at, admin = placed.urls[-1], {"Authorization": f"Bearer {KEY}"}
        wanted = {"name": "worker", "role": "editor"}
        made = data_of(await http.post(f"{placed.urls[0]}/keys", json=wanted, headers=admin), 201)
        own = {"Authorization": f"Bearer {made['key']}"}
        end = time.monotonic() + 30
        while (await http.get(f"{at}/keys/{made['keyId']}", headers=admin)).status_code == 404:
            assert time.monotonic() < end
            await asyncio.sleep(0.02)
        signed_in = await http.post(f"{at}/session", json={"key": made["key"]})
        session = {"Cookie": signed_in.headers["set-cookie"].partition(";")[0]}
        http.cookies.clear()
        assert (await http.get(f"{at}/jobs", headers=session)).status_code == 200
        claimed = {"instanceId": "i", "waitSeconds": 60}
        claim = asyncio.ensure_future(http.post(f"{at}/queues/q/claim", json=claimed, headers=own))
        async with http.stream("GET", f"{at}/events", headers=own, timeout=None) as stream:
            lines = stream.aiter_lines()
            await anext(lines)
            await http.delete(f"{placed.urls[0]}/keys/{made['keyId']}", headers=admin)
            began = time.monotonic()
            async with asyncio.timeout(30):
                async for _ in lines:
                    pass
                assert (await claim).status_code == 401
                took = time.monotonic() - began
        assert took < WITHIN + SLACK
        for known in (own, session):
            assert (await http.get(f"{at}/jobs", headers=known)).status_code == 401
        await placed.stop()
