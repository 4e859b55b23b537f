"""What the stops of the tour share: a parent of processes."""

from collections.abc import Iterator

import pytest

from tests.faults.processes import Fleet, open_fleet


@pytest.fixture(scope="session")
def fleet() -> Iterator[Fleet]:
    """Services in processes of their own; they are gone after the tests."""
    with open_fleet() as opened:
        yield opened
