"""A key that is revoked, or a session that is signed out, ends with what waits under it (SPEC section 14)."""

import asyncio
import time
from pathlib import Path

import httpx
import pytest

from tests.wire.processes.process import serve
from tests.wire.service import data_of

KEY = "the-key-of-the-settings"
WITHIN = 1.0
"""s: what is promised; a busy machine may take longer over the answer itself."""
SLACK = 4.0


@pytest.mark.long
async def test_it_ends_everywhere(tmp_path: Path) -> None:
    """Requests, sessions, streams and claims that wait."""
    environ = {"PUNCTUAL_SERVER__KEY": KEY, "PUNCTUAL_SERVER__DRAIN_SECONDS": "0"}
    with serve(tmp_path / "data", "--workers", "2", **environ) as process:
        url, admin = await asyncio.to_thread(process.wait_for_url), {"Authorization": f"Bearer {KEY}"}
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as http:
            wanted = {"name": "worker", "role": "editor", "service": "q"}
            made = data_of(await http.post("/keys", json=wanted, headers=admin), 201)
            own = {"Authorization": f"Bearer {made['key']}"}
            signed_in = await http.post("/session", json={"key": made["key"]})
            session = {"Cookie": signed_in.headers["set-cookie"].partition(";")[0]}
            http.cookies.clear()
            assert (await http.get("/jobs", headers=session)).status_code == 200
            claimed = {"instanceId": "i", "waitSeconds": 60}
            claim = asyncio.ensure_future(http.post("/queues/q/claim", json=claimed, headers=own))
            async with http.stream("GET", "/events", headers=own, timeout=None) as stream:
                lines = stream.aiter_lines()
                await anext(lines)
                await http.delete(f"/keys/{made['keyId']}", headers=admin)
                began = time.monotonic()
                async with asyncio.timeout(30):
                    async for _ in lines:
                        pass
                    assert (await claim).status_code == 401
                    took = time.monotonic() - began
            assert took < WITHIN + SLACK
            for known in (own, session):
                assert (await http.get("/jobs", headers=known)).status_code == 401
            signed_in = await http.post("/session", json={"key": KEY})
            console = {"Cookie": signed_in.headers["set-cookie"].partition(";")[0], "X-Punctual-Console": "1"}
            http.cookies.clear()
            async with http.stream("GET", "/events", headers=console, timeout=None) as stream:
                lines = stream.aiter_lines()
                await anext(lines)
                assert (await http.delete("/session", headers=console)).status_code == 200
                async with asyncio.timeout(WITHIN + SLACK):
                    async for _ in lines:
                        pass
        assert await asyncio.to_thread(process.stop) == 0
    with serve(tmp_path / "data", "--workers", "2", **environ) as process:
        url = await asyncio.to_thread(process.wait_for_url)
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as http:
            assert (await http.get("/jobs", headers=console)).status_code == 401
            assert (await http.get("/jobs", headers=admin)).status_code == 200
        assert await asyncio.to_thread(process.stop) == 0
