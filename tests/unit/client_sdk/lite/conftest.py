"""A target that answers as a test has it."""

from collections.abc import AsyncIterator

import pytest

from tests.wire.target import Target


@pytest.fixture
async def target() -> AsyncIterator[Target]:
    """A target on loopback."""
    async with Target(lambda: 0) as target:
        yield target
