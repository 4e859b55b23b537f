"""What a node of a cluster refuses by name, asked without its sidecar (SPEC sections 13, 15)."""

from pathlib import Path

import httpx
import pytest

from scheduler_service.app.cluster import open_node
from scheduler_service.settings import load_settings

pytestmark = pytest.mark.anyio
SERVED = "http://127.0.0.1:8000"


async def test_pull_queues_are_refused_by_name(tmp_path: Path) -> None:
    """A definition at its creation, with what to do instead; a worker with 503 `not_available`."""
    loaded = load_settings({"store.data": str(tmp_path)}, {})
    node = await open_node(loaded, served=SERVED, log=lambda event, /, **keys: None)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(node.api), base_url=SERVED) as client:
        posted = {
            "jobName": "queued",
            "creator": "1",
            "creatorName": "one",
            "timer": {"period": "external"},
            "request": [{"url": "queue://work"}],
        }
        refused = await client.post("/jobs/j", json=posted)
        claimed = await client.post("/queues/work/claim", json={"instanceId": "w"})
    await node.stop(0)
    assert refused.status_code == 422
    (error,) = refused.json()["errors"]
    assert (error["pointer"], error["code"]) == ("/request/0/url", "not_available")
    assert "run the embedded host" in error["message"]
    assert (claimed.status_code, claimed.json()["errors"][0]["code"]) == (503, "not_available")
