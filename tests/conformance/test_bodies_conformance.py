"""Raw bodies and strings of public collections against the API (SPEC section 10: never a 5xx)."""

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest

from tests.unit.api.world import World, definition

pytestmark = pytest.mark.anyio
JSON = {"Content-Type": "application/json"}


async def test_bodies_parse_or_are_refused(conformance: Any) -> None:
    """What must parse is never 400, what must not is 4xx, and nothing is ever 5xx."""
    world = World()
    async with world.client() as client:
        await client.post("/jobs/j1", json=definition(overlapPolicy="allow"))
        for row in conformance("json_bodies.jsonl"):
            body = base64.b64decode(row["body_base64"])
            for path in ("/jobs/j1/trigger", "/jobs/j2", "/jobs", "/timers/preview", "/jobs/j1/feedback/1"):
                response = await client.post(path, content=body, headers=JSON)
                assert response.status_code < 500, (row["id"], path)
                if row["kind"] == "y":
                    assert response.status_code != 400, (row["id"], path)
                elif row["kind"] == "n" and (body or path != "/jobs/j1/trigger"):
                    assert 400 <= response.status_code < 500, (row["id"], path)


async def test_objects_that_must_parse_are_parameters(conformance: Any) -> None:
    """Each well-formed object is taken as a trigger's parameters."""
    world = World()
    async with world.client() as client:
        await client.post("/jobs/j1", json=definition(overlapPolicy="allow"))
        for row in conformance("json_bodies.jsonl"):
            body = base64.b64decode(row["body_base64"])
            if row["kind"] == "y" and body.lstrip().startswith(b"{"):
                response = await client.post("/jobs/j1/trigger", content=body, headers=JSON)
                assert response.status_code == 200, row["id"]


async def test_strings_come_back_unchanged_or_are_refused(conformance: Any) -> None:
    """In free text a string is stored and returned as it was, or refused; never cut, never a 5xx."""
    world = World()
    async with world.client() as client:
        for row in conformance("naughty_strings.jsonl"):
            text = row["string"]
            posted = definition(
                jobName=text, jobDescription=text, labels={"k": text}, request=[{"url": "http://t.test/"}]
            )
            body = json.dumps(posted, ensure_ascii=False).encode(errors="surrogatepass")
            response = await client.post(f"/jobs/{row['id']}", content=body, headers=JSON)
            assert response.status_code in (201, 400, 422), row["id"]
            if response.status_code == 201:
                job = (await client.get(f"/jobs/{row['id']}")).json()["data"]
                assert job["definition"]["jobName"] == job["jobName"] == text
                assert job["labels"]["k"] == text


async def test_strings_as_ids_are_an_id_or_refused(conformance: Any) -> None:
    """As an id in the path a string is an id, or a 4xx; as a filter likewise."""
    world = World()
    async with world.client() as client:
        for row in conformance("naughty_strings.jsonl"):
            encoded = quote(row["string"], safe="", errors="replace")
            response = await client.post(f"/jobs/{encoded}", json=definition())
            assert response.status_code == 201 or 400 <= response.status_code < 500, row["id"]
            listed = await client.get(f"/jobs?text={encoded}")
            assert listed.status_code in (200, 422), row["id"]
            assert (await client.get(f"/executions/{encoded}")).status_code < 500, row["id"]
