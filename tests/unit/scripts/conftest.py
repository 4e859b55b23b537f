"""The manifest in `deploy`, for the tests that hold it."""

from typing import Any

import pytest

from tests.unit.scripts.deployment import MANIFEST, parts


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    return parts(MANIFEST.read_text())


@pytest.fixture
def pod(manifest: dict[str, Any]) -> dict[str, Any]:
    """What each node's pod is made of."""
    template: dict[str, Any] = manifest["Deployment"]["spec"]["template"]
    return template


@pytest.fixture
def node(pod: dict[str, Any]) -> dict[str, Any]:
    """The one container; Dapr adds its own."""
    (container,) = pod["spec"]["containers"]
    only: dict[str, Any] = container
    return only
