"""What the tests of the host share."""

import pytest


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """uvloop, as in service: tests with a clock that jumps make millions of its rounds."""
    return ("asyncio", {"use_uvloop": True})
