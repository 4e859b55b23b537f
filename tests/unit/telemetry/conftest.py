"""What the tests of telemetry share."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
