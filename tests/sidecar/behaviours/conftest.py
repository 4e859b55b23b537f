"""One set of real programs for all the behaviours, and the node that most of them need."""

from collections.abc import Iterator

import pytest

from scripts.local_cluster import LocalCluster
from tests.sidecar.behaviours.bare import Node, World

HOSTED = ("Plain", "job_scheduler", "Brief", "Lasting")
LONG = {"actorIdleTimeout": "1h"}
CONFIG = {
    "entities": HOSTED,
    "actorIdleTimeout": "1s",
    "entitiesConfig": [
        {"entities": ["Plain", "job_scheduler"], **LONG},
        {"entities": ["Lasting"], "actorIdleTimeout": "4s"},
    ],
}


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory, programs: dict[str, str]) -> Iterator[World]:
    """Redis, placement and scheduler service; the type `Bound` has the policy of `job_scheduler`."""
    folder = tmp_path_factory.mktemp("behaviours")
    cluster = LocalCluster(folder=folder, programs=programs)
    policies = folder / "resources" / "resiliency.yaml"
    text = policies.read_text(encoding="utf-8")
    bound = "      job_scheduler:\n        retry: sidecar\n"
    assert bound in text
    policies.write_text(text + bound.replace("job_scheduler", "Bound"), encoding="utf-8")
    opened = World(cluster)
    try:
        opened.start()
        yield opened
    finally:
        opened.stop()


@pytest.fixture(scope="package")
def node(world: World) -> Node:
    """One node with types of every kind; `job_scheduler` is under the product's own policies."""
    return world.join("behaviours", CONFIG)
