"""What the fault tests share: a Redis for each worker."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.faults.homes import ContextsHome
from tests.faults.sweeping import House
from tests.redis_server import APPENDING, RedisServer

DATABASES = 4_096


@pytest.fixture(scope="session")
def contexts_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Homes with contexts in a database each, all of one server; skips where Redis is not installed."""
    server = RedisServer(tmp_path_factory.mktemp("redis"), *APPENDING, "--databases", str(DATABASES)).start()
    numbers = itertools.count()

    def make(folder: Path) -> ContextsHome:
        return ContextsHome(folder, msgspec.structs.replace(server.address, database=next(numbers)))

    yield make
    server.kill()
