"""Names beyond ASCII in JSONPath, wherever a template may stand (SPEC section 4, RFC 9535)."""

from typing import Any
from urllib.parse import unquote

import pytest

from tests.wire.service import World, definition
from tests.wire.target import Reply

NAMES = ("作业", "状态é", "𠀀𠀁", "😀_1")


@pytest.mark.parametrize("name", NAMES)
async def test_a_job_reads_members_of_such_names_everywhere(world: World, name: str) -> None:
    """In a URL, its query, headers, a body, filters, checkUrl and a notification; as a bare name too."""
    target, expression = world.target, f"${{$.{name}.{name}}}"
    rows = f"${{$.{name}.rows[?@.{name} == $.{name}.{name}].id}}|json"
    steps: list[dict[str, Any]] = [
        {"url": f"service://jobswork/{expression}?{name}={expression}", "headers": {"X-Name": expression}},
        {
            "url": "service://jobswork/body",
            "body": {name: expression, "rows": rows, "bare": f"${{{name}.{name}}}"},
        },
    ]
    given = {name: {name: "v", "rows": [{name: "v", "id": 7}, {name: "w", "id": 8}]}}
    for path in ("/v", "/body", "/check"):
        target.always(path, Reply(body=given | {"status": "succeed"}))
    job = definition(
        request=steps,
        checkUrl=f"service://jobswork/check/{expression}",
        notification=[{"url": f"http://127.0.0.1:{target.port}/told/{expression}", "body": [expression]}],
    )
    posted = await world.client.post("/jobs/job", json=job | {"async": True})
    assert posted.status_code == 201, posted.text
    fired = await world.client.post("/jobs/job/trigger", json=given)
    await world.advance(5)
    assert (await world.ended(fired.json()["data"]["executionId"]))["state"] == "succeeded"
    (first,), (second,) = target.at("/v"), target.at("/body")
    assert (first.headers["x-name"], {unquote(key): value for key, value in first.query.items()}) == (
        "v",
        {name: "v"},
    )
    assert second.json == {name: "v", "rows": [7], "bare": "v"}
    assert [one.path for one in target.at("/check")] == ["/check/v"]
    assert {(one.path, str(one.json)) for one in target.at("/told")} == {("/told/v", "['v']")}


@pytest.mark.parametrize("name", NAMES)
async def test_a_preview_reads_them(world: World, name: str) -> None:
    """`POST /templates/preview`, as a job would."""
    asked = {"template": f"${{$.{name}[?@.{name} > 1].{name}}}|json", "root": {name: [{name: 1}, {name: 2}]}}
    shown = await world.client.post("/templates/preview", json=asked)
    assert shown.json()["data"] == {"value": [2]}
