"""A Redis server that a test may kill."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.redis_server import SYNCING, RedisServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server that the test may kill: with `everysec` it answers before it has written to its log."""
    server = RedisServer(tmp_path / "redis", *SYNCING).start()
    yield server
    server.kill()
