"""What the doctor finds of servers: the databases, the Redis of contexts, and the daprd of a node."""

import asyncio
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from scheduler_service import how_to_install
from scheduler_service.app.data_folder import history_address
from scheduler_service.maintenance.doctor_findings import DoctorFinding, ExaminedPart, ExaminedService, ask
from scheduler_service.maintenance.doctor_machine import judge_difference
from scheduler_service.persistence.contexts.redis_address import read_address
from scheduler_service.persistence.history.database import inspect
from scheduler_service.persistence.history.schema import MIGRATIONS as HISTORY_TABLES
from scheduler_service.persistence.job_store.job_store_schema import MIGRATIONS as JOB_TABLES
from scheduler_service.persistence.sql.database import ServerReport, read_report
from scheduler_service.persistence.sql.migrations import Migrations
from scheduler_service.persistence.sql.sqlite import address_of, file_of
from scheduler_service.persistence.sqlite.folder_lock import find_holder
from scheduler_service.ports.errors import StoreError
from scheduler_service.transport.sidecar_exchanges import REFUSED_REMEDY, show_token

CONTEXTS = ExaminedPart("contexts")
DAPRD = ExaminedPart("daprd")
SECONDS = 5.0
REMEDIES = {
    "placement": "start placement, and name it to daprd with --placement-host-address",
    "actors": "start the node: daprd asks it for its actors at dapr.app_port",
    "scheduler service": "start the scheduler service, and name it to daprd with --scheduler-host-address",
}


class KeptTables(NamedTuple):
    """What is kept in the database that a setting names, and the part that is told of it."""

    part: ExaminedPart
    setting: str
    migrations: Migrations


JOBS = KeptTables(ExaminedPart("store"), "store.url", JOB_TABLES)
HISTORY = KeptTables(ExaminedPart("database"), "database.url", HISTORY_TABLES)


async def examine_store(subject: ExaminedService) -> list[DoctorFinding]:
    """Reads, and migrates nothing. Nothing where the jobs are in files. Raises nothing."""
    url = subject.loaded.settings.store.url
    return [] if url is None else await asyncio.to_thread(lambda: list(_look_at_server(url, JOBS)))


async def examine_database(subject: ExaminedService) -> list[DoctorFinding]:
    """Reads, and migrates nothing; a file that a service uses is left alone. Raises nothing.

    Of a server that is that of `store.url` the tables alone are told.
    """
    settings = subject.loaded.settings
    url = history_address(settings, subject.folder)
    if (place := file_of(url)) is not None:
        return await asyncio.to_thread(lambda: list(_look_at_file(place, subject.folder)))
    if url.startswith("sqlite:"):
        return []
    if url == settings.store.url:
        return [await asyncio.to_thread(_judge_tables, url, HISTORY)]
    return await asyncio.to_thread(lambda: list(_look_at_server(url, HISTORY)))


def _look_at_file(place: Path, folder: Path | None) -> Iterator[DoctorFinding]:
    part = HISTORY.part
    if not place.is_file():
        yield part.well("history", f"{place.name} is not there yet")
    elif folder is not None and folder.is_dir() and find_holder(folder) is not None:
        yield part.well("history", f"{place.name} is in use")
    else:
        yield _judge_tables(address_of(place), HISTORY)


def _look_at_server(url: str, kept: KeptTables) -> Iterator[DoctorFinding]:
    part = kept.part
    try:
        report = read_report(url=url, subject=kept.migrations.subject)
    except StoreError as error:
        remedy = f"see that the server runs, and that {kept.setting} names its user, password and database"
        yield part.fail("answer", str(error), remedy)
        return
    yield part.well("answer", f"{report.product} {report.version}")
    yield _judge_server(report, kept)
    yield _judge_tables(url, kept)
    yield judge_difference(report.product, report.milliseconds / 1_000, report.between)


def _judge_server(report: ServerReport, kept: KeptTables) -> DoctorFinding:
    if report.is_replica:
        remedy = f"name the primary server in {kept.setting}"
        return kept.part.fail("fit", "it is a replica, which cannot be written to", remedy)
    if not report.syncs:
        detail = "a crash of the server may cost what it confirmed last"
        return kept.part.warn("fit", detail, f"set {report.synced_by}")
    return kept.part.well("fit", "it can be written to, and commits reach its disk")


def _judge_tables(url: str, kept: KeptTables) -> DoctorFinding:
    part = kept.part
    try:
        found = inspect(url=url, migrations=kept.migrations)
    except StoreError as error:
        return part.fail("tables", str(error), "'punctual db check' says more")
    if found.current is None:
        return part.well("tables", "none yet: the service makes them")
    if found.up_to_date:
        return part.well("tables", f"version {found.current}")
    detail = f"they have version {found.current}, this program {found.head}"
    if found.current > found.head:
        return part.fail("tables", detail, found.remedy)
    if found.current == found.head:
        return part.warn("tables", ", ".join(found.differences), found.remedy)
    remedy = "the service migrates them at its start, or 'punctual db migrate'; make a backup before"
    return part.warn("tables", detail, remedy)


async def examine_contexts(subject: ExaminedService) -> list[DoctorFinding]:
    """Reads what the server says of itself; writes nothing. Raises nothing."""
    url = subject.loaded.settings.contexts.url
    if url is None or not url.startswith("redis"):
        return []
    try:
        from scheduler_service.persistence.contexts.redis import RedisContexts, find_doubts, find_fault
    except ModuleNotFoundError as error:
        remedy = how_to_install("service", "redis")
        return [CONTEXTS.fail("package", f"the package {error.name} is missing", remedy)]
    address = read_address(url)
    contexts = RedisContexts(address=address, on_trouble=lambda _: None)
    try:
        report = await contexts.inspect()
    except StoreError as error:
        remedy = "see that the server runs, and that contexts.url names its user, password and database"
        return [CONTEXTS.fail("answer", str(error), remedy)]
    finally:
        await contexts.close()
    answer = CONTEXTS.well("answer", f"Redis at {address}")
    if fault := find_fault(report):
        return [answer, CONTEXTS.fail("fit", fault, "name a server that stands alone, and can be written to")]
    remedy = "set it in redis.conf, or with CONFIG SET and CONFIG REWRITE"
    doubts = [CONTEXTS.warn("fit", doubt, remedy) for doubt in find_doubts(report)]
    return [answer, *(doubts or [CONTEXTS.well("fit", "appendfsync always, and no key is dropped")])]


async def examine_daprd(subject: ExaminedService) -> list[DoctorFinding]:
    """Nothing where the settings are not those of a node. Raises nothing."""
    if not subject.is_node:
        return []
    dapr = subject.loaded.settings.dapr
    base = f"http://127.0.0.1:{dapr.http_port}"
    try:
        async with httpx.AsyncClient(
            base_url=base, timeout=SECONDS, trust_env=False, headers=show_token(dapr.api_token)
        ) as client:
            health = await ask(client, "/v1.0/healthz/outbound")
            answer = await ask(client, "/v1.0/metadata")
            if answer.status_code == HTTPStatus.UNAUTHORIZED:
                return [DAPRD.fail("token", f"daprd at {base} refuses this node (401)", REFUSED_REMEDY)]
            metadata = answer.json() if answer.status_code == HTTPStatus.OK else {}
    except (httpx.HTTPError, ValueError, RecursionError) as error:
        remedy = (
            "start daprd with --app-id, --app-port, --dapr-http-port and --dapr-grpc-port as settings say"
        )
        said = str(error) or type(error).__name__
        return [DAPRD.fail("answer", f"nothing answers as daprd at {base} ({said})", remedy)]
    return list(judge_daprd(base, health.status_code, metadata if isinstance(metadata, dict) else {}))


def judge_daprd(base: str, health: int, metadata: dict[str, Any]) -> Iterator[DoctorFinding]:
    """What daprd's own metadata say; `health` is the status of its answer to the question for it."""
    try:
        from scheduler_service.hosts.dapr.sidecar_watch import (
            OLDEST_VERSION,
            find_missing,
            has_actor_store,
            is_too_old,
        )
    except ModuleNotFoundError as error:
        remedy = how_to_install("service", "dapr", "postgres")
        yield DAPRD.fail("package", f"the package {error.name} is missing", remedy)
        return
    if not metadata:
        yield DAPRD.fail("answer", f"what answers at {base} is not daprd", "see dapr.http_port")
        return
    version, oldest = str(metadata.get("runtimeVersion", "?")), ".".join(map(str, OLDEST_VERSION))
    if is_too_old(version):
        yield DAPRD.fail("version", f"{version}; {oldest} is the oldest that works", "install a newer Dapr")
    else:
        yield DAPRD.well("version", f"daprd {version} at {base}, app id {metadata.get('id', '?')!r}")
    if health < HTTPStatus.BAD_REQUEST:
        yield DAPRD.well("health", "its components are there")
    else:
        yield DAPRD.fail("health", f"it answers {health} for its components", "its log names the component")
    missing = find_missing(metadata)
    for name, remedy in REMEDIES.items():
        if name in missing:
            yield DAPRD.fail(name, "not there", remedy)
        else:
            yield DAPRD.well(name, "there")
    if has_actor_store(metadata):
        yield DAPRD.well("actor store", "there")
    else:
        remedy = 'a state component with actorStateStore "true", as components/statestore.yaml'
        yield DAPRD.fail("actor store", "no state store for actors", remedy)
