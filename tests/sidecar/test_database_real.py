"""Two nodes on the real programs with all they share in one PostgreSQL (SPEC sections 12, 15)."""

from pathlib import Path

import pytest

from tests.sidecar.stage import Stage, comes_up, definition, staged_on_postgres, until

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]
NAMES = ("one", "two")
EXTERNAL = {"period": "external"}


def listed(stage: Stage, name: str) -> set[tuple[str, int]]:
    """What the history says on this node."""
    answer = stage.call(name, "GET", "/executions?state=succeeded&limit=100")[1]
    return {(one["jobId"], one["executeNumber"]) for one in answer["data"]["items"]} if answer else set()


def test_nodes_share_one_history_which_may_restart(tmp_path: Path, programs: dict[str, str]) -> None:
    """What either node did is told by both; a database that was killed is taken up again."""
    jobs = [f"j{number}" for number in range(4)]
    with staged_on_postgres(tmp_path, programs, *NAMES) as stage:
        database = stage.cluster.postgres
        assert database is not None
        for job in jobs:
            body = definition(stage.target, timer=EXTERNAL)
            assert stage.call("one", "POST", f"/jobs/{job}", body)[0] == 201
        for number, job in enumerate(jobs):
            assert stage.call(NAMES[number % 2], "POST", f"/jobs/{job}/trigger", {})[0] == 200
        first = {(job, 1) for job in jobs}
        assert until(lambda: all(listed(stage, name) >= first for name in NAMES), 20)
        database.kill()
        assert until(lambda: comes_up(database), 30), database.last_lines(20)
        for number, job in enumerate(jobs):
            assert stage.insist("POST", f"/jobs/{job}/trigger", {}, name=NAMES[1 - number % 2]) == 200
        both = {(job, number) for job in jobs for number in (1, 2)}
        assert until(lambda: all(listed(stage, name) >= both for name in NAMES), 30)
        assert list((tmp_path / "data").rglob("*.db")) == []
