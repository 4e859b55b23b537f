"""What all hosts are made of is made in one place."""

from pathlib import Path

import pytest

from scheduler_service import app

ROOT = Path(app.__file__).parent


@pytest.mark.parametrize("module", ["container", "worker_main", "node"])
def test_each_host_is_made_of_the_same_parts(module: str) -> None:
    """A service, a worker process and a node: what decorates a port decorates it in all three."""
    text = (ROOT / f"{module}.py").read_text()
    assert "make_host_parts(" in text
    assert "HostParts(" not in text.replace("make_host_parts(", "")
