"""Every definition that a page for users shows can be posted as it stands."""

import json

from tests.rows import each_row
from tests.unit.docs.pages import fences, read
from tests.wire.service import data_of, running

PAGES = ("docs/guide.md", "docs/queues.md", "docs/cli.md")


@each_row("page", PAGES)
async def test_the_definitions_of_a_page_can_be_posted(page: str) -> None:
    """With the id that each has, all of them beside each other, without a warning."""
    definitions = [json.loads(text) for text in fences(read(page), "json")]
    assert definitions
    async with running(egress={"allow": ["127.0.0.1"]}) as world:
        for definition in definitions:
            text = json.dumps(definition).replace("127.0.0.1:9000", f"127.0.0.1:{world.target.port}")
            answer = await world.client.post(f"/jobs/{definition['jobId']}", json=json.loads(text))
            assert data_of(answer, 201)["jobId"] == definition["jobId"]
            assert answer.json()["warnings"] == []
