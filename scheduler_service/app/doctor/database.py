"""What the doctor finds of the databases, and of the Redis that has contexts of qos 1."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from scheduler_service import how_to_install
from scheduler_service.app.data_folder import history_address
from scheduler_service.app.doctor.finding import DoctorFinding, ExaminedPart, ExaminedService
from scheduler_service.app.doctor.machine import judge_difference
from scheduler_service.persistence.contexts.address import read_address
from scheduler_service.persistence.history.database import inspect
from scheduler_service.persistence.sql.report import ServerReport, read_report
from scheduler_service.persistence.sql.sqlite import address_of, file_of
from scheduler_service.persistence.sqlite.folder import find_holder
from scheduler_service.ports.errors import StoreError

DATABASE = ExaminedPart("database")
SUBJECT = "the history"
CONTEXTS = ExaminedPart("contexts")


async def examine_database(subject: ExaminedService) -> list[DoctorFinding]:
    """Reads, and migrates nothing; a file that a service uses is left alone. Raises nothing."""
    url = history_address(subject.loaded.settings, subject.folder)
    if (place := file_of(url)) is not None:
        return await asyncio.to_thread(lambda: list(_look_at_file(place, subject.folder)))
    if url.startswith("sqlite:"):
        return []
    return await asyncio.to_thread(lambda: list(_look_at_server(url)))


def _look_at_file(place: Path, folder: Path | None) -> Iterator[DoctorFinding]:
    if not place.is_file():
        yield DATABASE.well("history", f"{place.name} is not there yet")
    elif folder is not None and folder.is_dir() and find_holder(folder) is not None:
        yield DATABASE.well("history", f"{place.name} is in use")
    else:
        yield _judge_tables(address_of(place))


def _look_at_server(url: str) -> Iterator[DoctorFinding]:
    try:
        report = read_report(url=url, subject=SUBJECT)
    except StoreError as error:
        remedy = "see that the server runs, and that database.url names its user, password and database"
        yield DATABASE.fail("answer", str(error), remedy)
        return
    yield DATABASE.well("answer", f"{report.product} {report.version}")
    yield _judge_server(report)
    yield _judge_tables(url)
    yield judge_difference(report.product, report.milliseconds / 1_000, report.between)


def _judge_server(report: ServerReport) -> DoctorFinding:
    if report.is_replica:
        return DATABASE.fail("fit", "it is a replica, which cannot be written to", "name the primary server")
    if not report.syncs:
        detail = "a crash of the server may cost what it confirmed last"
        return DATABASE.warn("fit", detail, f"set {report.synced_by}")
    return DATABASE.well("fit", "it can be written to, and commits reach its disk")


def _judge_tables(url: str) -> DoctorFinding:
    try:
        found = inspect(url=url)
    except StoreError as error:
        return DATABASE.fail("tables", str(error), "'punctual db check' says more")
    if found.current is None:
        return DATABASE.well("tables", "none yet: the service makes them")
    if found.up_to_date:
        return DATABASE.well("tables", f"version {found.current}")
    detail = f"they have version {found.current}, this program {found.head}"
    if found.current > found.head:
        return DATABASE.fail("tables", detail, found.remedy)
    if found.current == found.head:
        return DATABASE.warn("tables", ", ".join(found.differences), found.remedy)
    remedy = "the service migrates them at its start, or 'punctual db migrate'; make a backup before"
    return DATABASE.warn("tables", detail, remedy)


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
