"""Other applications beside the API, below a path prefix."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from scheduler_service.api.application import create_api
from tests.unit.api.world import World


async def static(scope: Any, receive: Any, send: Any) -> None:
    """A tiny application: answers every path with its name."""
    body = f"page {scope['path'].removeprefix(scope['root_path'])}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
async def browser() -> AsyncIterator[httpx.AsyncClient]:
    """A client without a key, of a service that has one."""
    api = create_api(World(admin_key="secret").deps, mounts={"/console": static})
    transport = httpx.ASGITransport(api, client=("192.0.2.1", 1234))
    async with httpx.AsyncClient(transport=transport, base_url="https://jobs.example") as client:
        yield client


async def test_a_mount_is_served_without_a_key(browser: httpx.AsyncClient) -> None:
    """The API's authentication is not applied to it."""
    for path in ("/console/", "/console/app.js", "/console/jobs/j1"):
        answer = await browser.get(path)
        assert (answer.status_code, answer.text) == (200, f"page {path.removeprefix('/console')}")


async def test_a_mount_s_prefix_redirects_to_its_first_page(browser: httpx.AsyncClient) -> None:
    """With a slash at its end, so that relative links in the page lead below the prefix."""
    answer = await browser.get("/console")
    assert (answer.status_code, answer.headers["location"]) == (307, "console/")


async def test_the_api_beside_a_mount_still_needs_its_key(browser: httpx.AsyncClient) -> None:
    """Routes of the API, and unknown paths outside the mount."""
    for path in ("/jobs", "/settings", "/consoles", "/nothing"):
        assert (await browser.get(path)).status_code == 401
