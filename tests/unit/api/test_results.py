"""Results over the wire: read, waited for, downloaded (SPEC section 10)."""

import asyncio
from typing import Any

import httpx
from msgspec.structs import replace

from tests.rows import each_row
from tests.unit.api.world import World, pointers, start

PATH = "/executions/j1%23last/result"


async def kept(client: httpx.AsyncClient, world: World, **members: Any) -> str:
    """An execution that has succeeded, whose history has this result."""
    execution_id = await start(client, keepResult=True)
    await world.answer_calls()
    key = execution_id.rpartition("-")[0], 1
    world.history.results[key] = replace(world.history.results[key], **members)
    return execution_id


JSON = b'{"n": 1.50, "a": 12345678901234567890}'
BODIES = [JSON, b"", b"plain", "\u00e4".encode(), b"\xff\x00", b"NaN"]


@each_row("body", BODIES)
async def test_a_result_is_shown_as_it_was_answered(body: bytes) -> None:
    """JSON byte by byte, a text as it is, other bytes in base64, with the target's status and type."""
    world = World()
    async with world.client() as client:
        execution_id = await kept(client, world, body=body, status=201, content_type="a/b; c=d")
        answer = await client.get(PATH)
        shown = answer.json()["data"]
        of_json = b'"encoding":"json","body":%b' % body
        if body.startswith(b"{"):
            assert of_json in answer.content
        else:
            written = {b"\xff\x00": ("base64", "/wA=")}.get(body) or ("text", body.decode())
            assert (shown["encoding"], shown["body"]) == written
        assert (shown["executionId"], shown["status"], shown["contentType"]) == (
            execution_id,
            201,
            "a/b; c=d",
        )
        assert (shown["truncated"], shown["masked"]) == (False, False)


@each_row(
    ("kind", "written"),
    [
        ("text/html; charset=utf-8", "text/html; charset=utf-8"),
        ("text/html; x=y", "text/html; x=y"),
        ("text/html; charset=latin1; x=y", "text/html; charset=utf-8"),
        ("", "application/octet-stream"),
        ("text/html\r\nx: y", "application/octet-stream"),
        ("html", "application/octet-stream"),
    ],
)
async def test_a_file_is_never_a_page(kind: str, written: str) -> None:
    """What a target answers is downloaded: no browser shows it in this origin, nor guesses its type.

    A text is in UTF-8 since it was kept.
    """
    world = World()
    async with world.client() as client:
        page = b"<script>alert(1)</script>"
        execution_id = await kept(client, world, body=page, content_type=kind)
        answer = await client.get(f"{PATH}?download=true")
        assert (answer.content, answer.headers["content-type"]) == (page, written)
        assert answer.headers["content-disposition"] == f'attachment; filename="{execution_id}.txt"'
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"


async def test_why_there_is_no_result(client: httpx.AsyncClient, world: World) -> None:
    """409 before the end, 404 with the reason after it."""
    await start(client, keepResult=True)
    running = await client.get(PATH)
    assert (running.status_code, pointers(running)) == (409, [("/executionId", "not_ended")])
    await world.answer_calls(500)
    failed = await client.get(PATH)
    assert (failed.status_code, pointers(failed)) == (404, [("/executionId", "terminated")])
    assert "500" in failed.json()["detail"]
    await start(client, "plain")
    await world.answer_calls()
    for path, code in (
        ("/executions/plain%231/result", "not_kept"),
        ("/executions/plain%232/result", "absent"),
        ("/executions/nobody-1/result?wait=60", "absent"),
    ):
        absent = await client.get(path)
        assert (absent.status_code, pointers(absent)) == (404, [("/executionId", code)])
    world.history.has_dropped = True
    assert pointers(await client.get("/executions/plain%231/result")) == [("/executionId", "dropped")]
    assert (await client.get(f"{PATH}?wait=61")).status_code == 422


async def test_the_end_is_waited_for(client: httpx.AsyncClient, world: World) -> None:
    """Of the execution that was the last one then; where it takes longer it is 409."""
    first = await start(client, keepResult=True, maxConcurrency=2)
    waiting = asyncio.ensure_future(client.get(f"{PATH}?wait=60"))
    await world.was_read.wait()
    calls = list(world.effects)
    await client.post("/jobs/j1/trigger")
    world.effects = calls
    await world.answer_calls()
    found = await waiting
    assert found.json()["data"]["executionId"] == first
    assert found.json()["data"]["body"] == {"rows": 7}
    assert (await client.get(f"{PATH}?wait=0.01")).status_code == 409
