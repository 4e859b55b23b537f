"""What the tests of the host share."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
