"""The real programs: Redis, placement, scheduler service and daprd 1.18.3."""

import os
import subprocess

import pytest

from scripts.local_programs import describe_missing, find_programs

VERSION = "1.18.3"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """No package index has these programs: under CI these tests may be skipped."""
    for item in items:
        if "tests/sidecar" in str(item.path):
            item.add_marker(pytest.mark.elsewhere)


@pytest.fixture(scope="session")
def programs() -> dict[str, str]:
    """name → path; skips where one is missing, and fails instead under PUNCTUAL_REQUIRE_DAPR=1."""
    found = find_programs(os.environ)
    missing = describe_missing(found)
    if missing:
        message = "; ".join(missing)
        if os.environ.get("PUNCTUAL_REQUIRE_DAPR") == "1":
            pytest.fail(message)
        pytest.skip(message)
    said = subprocess.run([found["daprd"], "--version"], capture_output=True, text=True, check=True).stdout
    assert said.strip() == VERSION, f"these tests speak of daprd {VERSION}; this one is {said.strip()}"
    return found
