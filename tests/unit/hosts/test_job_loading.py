"""Compiled definitions are kept as long as they have room."""

import gc
import json
import tracemalloc
from typing import Any

import pytest

from scheduler_service.engine.program import USUAL_BYTES, weigh
from scheduler_service.hosts.job_loading import ProgramCache
from tests.unit.hosts.house import compile_stored, compile_text, describe

pytestmark = pytest.mark.anyio
LABELS = {f"label-{number}": "x" for number in range(300)}


class Texts:
    """The definitions of a store, which counts how often they are read."""

    def __init__(self) -> None:
        self.kept: dict[int, bytes] = {}
        self.read: list[int] = []

    async def definition(self, uid: str, revision: int) -> bytes | None:
        """One of them."""
        self.read.append(revision)
        return self.kept.get(revision)


async def test_what_was_used_last_is_kept_as_far_as_there_is_room() -> None:
    """The bytes count, and not only the number."""
    texts = Texts()
    texts.kept = {revision: describe(labels=LABELS).text for revision in range(1, 5)}
    cache = ProgramCache(read=texts.definition, compiler=compile_stored, most_bytes=2 * weigh(texts.kept[1]))
    for revision in (1, 2, 1, 3, 1, 3, 2):
        assert list(await cache.load("job", "life", [revision])) == [revision]
    assert texts.read == [1, 2, 3, 2]
    assert cache.weight("life", [1, 2, 3]) == 2 * weigh(texts.kept[1])


async def test_one_that_is_too_large_is_kept_alone() -> None:
    """Until another one comes: its job is not compiled anew at each turn."""
    texts = Texts()
    texts.kept = {1: describe(labels=LABELS).text, 2: describe(maxRetries=3).text}
    cache = ProgramCache(read=texts.definition, compiler=compile_stored, most_bytes=1)
    await cache.load("job", "life", [1])
    await cache.load("job", "life", [1])
    await cache.load("job", "life", [2])
    await cache.load("job", "life", [1])
    assert texts.read == [1, 2, 1]


def test_a_usual_definition_is_not_counted() -> None:
    """The number of jobs in memory is bounded for them."""
    assert weigh(describe(jobName="x" * 100, labels={"team": "billing"}).text) < USUAL_BYTES / 2


@pytest.mark.parametrize(
    "members",
    [
        {"labels": LABELS},
        {"request": [{"url": "http://a.test/", "headers": {f"a{one}": "1" for one in range(900)}}]},
        {"request": [{"url": "http://a.test/", "body": ["${jobId}", *[[]] * 10_000]}]},
        {"request": [{"url": "http://a.test/", "body": ["${jobId}", *[{"a": {}}] * 5_000]}]},
        {"request": [{"url": "http://a.test/", "body": ["${jobId}", *range(20_000)]}]},
        {"request": [{"url": f"http://a.test/{one}"} for one in range(400)]},
        {"notification": [{"url": f"http://a.test/{one}"} for one in range(90)]},
        {"retry": [{"errorEquals": [str(one) for one in range(3_000)]}]},
        # Short ones, of which all marks count alike:
        {"request": [{"url": "http://a.test/", "headers": {f"a{one}": "1" for one in range(60)}}]},
        {"request": [{"url": "http://a.test/", "body": ["${jobId}", *[[]] * 200]}]},
        {"request": [{"url": f"http://a.test/{one}"} for one in range(20)]},
    ],
)
def test_the_weight_is_about_what_memory_says(members: dict[str, Any]) -> None:
    """No less than a quarter of it, for what compiles to much more than its text."""
    text = json.dumps(json.loads(describe(**members).text), separators=(",", ":")).encode()
    compile_text(text)  # what the first one leaves in caches is not its own
    gc.freeze()  # the collection below looks at what is compiled alone
    tracemalloc.start()
    try:
        program = compile_text(text)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert program.job_id == "job"
    assert taken / 4 < weigh(text) + USUAL_BYTES < taken * 8
