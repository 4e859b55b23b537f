"""The history's database, the Redis of contexts, and a node's daprd."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from scheduler_service.app.data_folder import history_address
from scheduler_service.hosts.dapr.sidecar import ACTOR_TYPE
from scheduler_service.maintenance.doctor_servers import (
    examine_contexts,
    examine_daprd,
    examine_database,
    examine_store,
    judge_daprd,
)
from scheduler_service.maintenance.folder_formats import migrate_server
from scheduler_service.persistence.history.database import migrate
from scheduler_service.persistence.sqlite.folder_lock import FolderLock
from scheduler_service.settings import Settings
from tests.redis_server import SYNCING, RedisServer
from tests.rows import each_row
from tests.unit.maintenance.subjects import states, subject
from tests.unit.persistence.servers import command, each_server
from tests.unit.transport.servers import Stage, repeating

server_url = each_server


async def test_a_history_in_a_file(tmp_path: Path) -> None:
    """Not there, made, in use."""
    assert states(await examine_database(subject(tmp_path))) == {"history": "ok"}
    migrate(url=history_address(Settings(), tmp_path))
    assert states(await examine_database(subject(tmp_path))) == {"tables": "ok"}
    lock = FolderLock.claim(tmp_path)
    assert states(await examine_database(subject(tmp_path))) == {"history": "ok"}
    lock.release()


async def test_a_history_on_a_server(tmp_path: Path, server_url: str) -> None:
    """Its version, what it keeps, its tables and its clock; nothing is made there."""
    given = subject(tmp_path, database__url=server_url)
    name = "PostgreSQL" if server_url.startswith("postgresql") else "MariaDB"
    findings = await examine_database(given)
    assert states(findings).keys() == {"answer", "fit", "tables", name}
    assert states(findings)["answer"] == states(findings)["tables"] == states(findings)[name] == "ok"
    assert states(findings)["fit"] == "warning", "the tests' own server does not sync"
    assert any("none yet" in one.detail for one in findings)
    migrate(url=server_url)
    assert any(one.detail.startswith("version ") for one in await examine_database(given))
    command(server_url, "DROP TABLE executions CASCADE")
    assert states(await examine_database(given))["tables"] == "warning"


async def test_a_server_that_is_not_there_is_told_without_its_password(tmp_path: Path) -> None:
    """With the address."""
    url = "postgresql://me:hidden@127.0.0.1:1/x"
    findings = await examine_database(subject(tmp_path, database__url=url))
    assert states(findings) == {"answer": "failed"}
    assert "hidden" not in str(findings)
    assert "127.0.0.1:1" in str(findings)


async def test_the_server_of_the_jobs(tmp_path: Path, server_url: str) -> None:
    """As that of the history, with the tables of the jobs; of a history beside them the tables alone."""
    given = subject(tmp_path, store__url=server_url)
    findings = await examine_store(given)
    assert {one.part for one in findings} == {"store", "clock"}
    assert states(findings)["answer"] == states(findings)["tables"] == "ok"
    assert states(await examine_database(given)) == {"tables": "ok"}
    await asyncio.to_thread(migrate_server, server_url, server_url)
    command(server_url, "DROP TABLE outbox CASCADE")
    assert states(await examine_store(given))["tables"] == "warning"
    assert states(await examine_database(given)) == {"tables": "ok"}


async def test_a_dead_server_of_the_jobs_is_failed_beside_a_history_in_a_file(tmp_path: Path) -> None:
    """The remedy names its setting, and nothing its password."""
    url = "postgresql://me:hidden@127.0.0.1:1/x"
    given = subject(tmp_path, store__url=url, database__url=f"sqlite:///{tmp_path}/history.db")
    (found,) = await examine_store(given)
    assert (found.part, found.check, found.state) == ("store", "answer", "failed")
    assert "store.url" in found.remedy
    assert "hidden" not in str(found)
    assert states(await examine_database(given)) == {"history": "ok"}
    assert await examine_store(subject(tmp_path)) == [], "the jobs are in files"


async def test_a_server_is_judged_by_what_it_keeps(tmp_path: Path) -> None:
    """Fit; then without its log; then it is gone."""
    server = RedisServer(tmp_path / "redis", *SYNCING).start()
    try:
        given = subject(contexts__url=server.url)
        assert states(await examine_contexts(given)) == {"answer": "ok", "fit": "ok"}
        server.client.config_set("appendonly", "no")
        findings = await examine_contexts(given)
        assert states(findings)["fit"] == "warning"
        assert any("set appendonly yes" in one.detail for one in findings)
    finally:
        server.kill()
    assert states(await examine_contexts(given)) == {"answer": "failed"}
    secret = subject(contexts__url=server.url.replace("//", "//me:hidden@"))
    assert "hidden" not in str(await examine_contexts(secret))


@pytest.mark.parametrize("url", [None, "sql"])
async def test_without_redis_nothing_is_said(url: str | None) -> None:
    """Contexts are in the rows of their jobs."""
    assert await examine_contexts(subject(contexts__url=url)) == []


GOOD: dict[str, Any] = {
    "id": "scheduler",
    "runtimeVersion": "1.18.3",
    "actorRuntime": {
        "placement": "placement: connected",
        "hostReady": True,
        "activeActors": [{"type": ACTOR_TYPE}],
    },
    "scheduler": {"connected_addresses": ["127.0.0.1:1"]},
    "components": [{"name": "s", "type": "state.redis", "capabilities": ["ETAG", "ACTOR"]}],
}


@each_row(
    ("change", "check"),
    [
        ({}, ""),
        ({"runtimeVersion": "1.17.0"}, "version"),
        ({"actorRuntime": GOOD["actorRuntime"] | {"placement": ""}}, "placement"),
        ({"actorRuntime": GOOD["actorRuntime"] | {"hostReady": False}}, "actors"),
        ({"scheduler": {"connected_addresses": []}}, "scheduler service"),
        ({"components": []}, "actor store"),
    ],
)
def test_what_is_missing_is_failed(change: dict[str, Any], check: str) -> None:
    """That alone."""
    found = states(judge_daprd("http://127.0.0.1:3500", 204, GOOD | change))
    assert [name for name, state in found.items() if state == "failed"] == ([check] if check else [])


def test_components_that_are_not_there_are_failed() -> None:
    """By daprd's own health."""
    assert states(judge_daprd("http://127.0.0.1:3500", 500, GOOD))["health"] == "failed"


async def test_a_token_that_daprd_refuses_is_named() -> None:
    """And the right one is shown to it."""
    async with AsyncExitStack() as stack:
        refusal = b"HTTP/1.1 401 X\r\nContent-Length: 0\r\n\r\n"
        server = await Stage(stack).server(repeating(refusal))
        asked = subject(is_node=True, dapr__http_port=server.port, dapr__api_token="sesame")
        assert states(await examine_daprd(asked)) == {"token": "failed"}
        assert all(b"dapr-api-token: sesame\r\n" in sent for sent in server.requests)


async def test_nothing_answers() -> None:
    """And nothing is asked where the service is no node."""
    assert states(await examine_daprd(subject(is_node=True, dapr__http_port=1))) == {"answer": "failed"}
    assert await examine_daprd(subject()) == []
