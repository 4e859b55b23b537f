"""One rate limit over two real nodes (SPEC section 13)."""

from pathlib import Path

import pytest

from tests.sidecar.stage import definition, staged_on_postgres, until

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]
NODES = ("one", "two")
JOBS, EACH, PER_SECOND = 20, 3, 5


def test_both_nodes_share_the_limit(tmp_path: Path, programs: dict[str, str]) -> None:
    """All calls take as long as one limit lets them, not half as long; and not much longer."""
    with staged_on_postgres(tmp_path, programs, *NODES) as stage:
        address = stage.target.url.removesuffix("/run")
        service = {"address": address, "rateLimit": {"count": PER_SECOND, "perSeconds": 1}}
        assert stage.call("one", "PUT", "/services/shop", service)[0] == 201
        known = "/services/shop"
        assert until(lambda: stage.call("two", "GET", known)[1]["data"].get("rateLimit") is not None, 10)
        for number in range(JOBS):
            job = definition(
                stage.target, qos=1, timeoutSeconds=120, timer={"period": "external"}, overlapPolicy="allow",
                request=[{"url": "service://shop/run"}],
            )  # fmt: skip
            assert stage.call("one", "POST", f"/jobs/job{number}", job)[0] == 201
        for number in range(JOBS * EACH):
            path = f"/jobs/job{number % JOBS}/trigger"
            assert stage.call(NODES[number % 2], "POST", path, {})[0] == 200
        assert until(lambda: len(stage.target.arrivals) == JOBS * EACH, 60), len(stage.target.arrivals)
        moments = sorted(at for times in stage.target.arrivals.values() for at in times)
        nodes = stage.rows("SELECT count(*) FROM nodes")
        assert nodes == [(2,)]
        least = (JOBS * EACH / PER_SECOND - 1) * 1_000
        assert least - 500 <= moments[-1] - moments[0] <= 2 * least
