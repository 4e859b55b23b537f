"""What the tests of the SDK share."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """asyncio alone."""
    return "asyncio"
