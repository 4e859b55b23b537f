"""A service whose jobs lie in a database server (`store.url`), killed, doubled, and without its server."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.faults.jobs import asked, begin, ended, plain
from tests.faults.processes import Run, start_run
from tests.faults.stories import JOB
from tests.faults.target import open_target
from tests.unit.persistence.servers import (
    DatabaseServer,
    command,
    make_database,
)

pytestmark = pytest.mark.timeout(300)


def settings_of(url: str) -> dict[str, Any]:
    """All that the service keeps is there."""
    return {"store.url": url, "server.drain_seconds": 1}


async def test_an_execution_outlives_its_service(tmp_path: Path, each_server: str) -> None:
    """It goes on with the call that was in flight, under its key; what was answered is not sent again."""
    settings = settings_of(each_server)
    async with open_target() as target:
        run = start_run(tmp_path / "data", settings=settings)
        steps = [{"url": f"{target.url}/one"}, {"url": f"{target.url}/three"}]
        told = [{"url": f"{target.url}/told", "stateEquals": ["finalSucceed"], "guarantee": "outbox"}]
        await begin(run, plain(target, qos=1, request=steps, notification=told))
        gate = target.hold("/three")
        assert (await run.ask("POST", f"{JOB}/trigger")).status_code == 200
        await run.until(lambda: asked(target, 2), "the second step is sent")
        other = start_run(tmp_path / "other", settings=settings)
        assert await other.end() == 3
        assert "another service has the jobs in this database" in other.message
        await run.kill()
        gate.set()
        again = start_run(tmp_path / "data", settings=settings)
        assert await again.is_up(), again.message
        assert [one["state"] for one in await ended(again, 1)] == ["succeeded"]
        await again.until(lambda: asked(target, 4), "it is told of")
        assert await again.terminate() == 0
        assert Counter(one.path for one in target.seen) == {"/one": 1, "/three": 2, "/told": 1}
        assert len({one.key for one in target.to("/three")}) == 1


async def test_a_service_that_lost_its_database_to_another_one_ends(tmp_path: Path, each_server: str) -> None:
    """At once, and says why: what it would do from then on would be done twice (SPEC section 14)."""
    async with open_target() as target:
        run = start_run(tmp_path / "data", settings=settings_of(each_server))
        await begin(run, plain(target, qos=1))
        command(each_server, "UPDATE marks SET value = value + 1 WHERE name = 'service'")
        assert await run.end() == 3
        assert not target.seen
    assert '"store_taken"' in Path(run.order.log).read_text()


async def test_a_server_that_is_away_costs_nothing(tmp_path: Path, fragile_server: DatabaseServer) -> None:
    """503, nothing is begun, and it is not ready; when the server is back the same process goes on."""
    async with open_target() as target:
        run = start_run(tmp_path / "data", settings=settings_of(make_database(fragile_server.url)))
        await begin(run, plain(target, qos=1))
        fragile_server.stop()
        assert (await run.ask("POST", f"{JOB}/trigger")).status_code == 503
        await run.until(lambda: is_ready(run, 503), "it is not ready")
        assert not target.seen
        fragile_server.start()
        await run.until(lambda: is_ready(run, 200), "it is ready")
        assert (await run.ask("POST", f"{JOB}/trigger")).status_code == 200
        assert [one["state"] for one in await ended(run, 1)] == ["succeeded"]
        assert await run.terminate() == 0
    said = Path(run.order.log).read_text()
    assert said.index('"store_not_written"') < said.index('"store_written_again"')


async def is_ready(run: Run, status: int) -> bool:
    """Whether readiness is answered so."""
    return (await run.ask("GET", "/health/ready")).status_code == status
