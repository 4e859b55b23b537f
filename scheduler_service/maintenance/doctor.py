"""Examines what a service needs before it starts or while it runs: its settings, then all other parts."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from ipaddress import ip_network
from pathlib import Path

from scheduler_service.app.core_settings import examined_surroundings
from scheduler_service.app.egress import egress_of
from scheduler_service.app.lifetime import MOST_NAMED, check_exposure
from scheduler_service.maintenance.doctor_findings import DoctorFinding, ExaminedPart, ExaminedService
from scheduler_service.maintenance.doctor_folder import examine_folder, examine_jobs
from scheduler_service.maintenance.doctor_machine import examine_limits, examine_versions, judge_step
from scheduler_service.maintenance.doctor_servers import (
    examine_contexts,
    examine_daprd,
    examine_database,
    examine_store,
)
from scheduler_service.maintenance.doctor_service import examine_service
from scheduler_service.ports.errors import StoreError
from scheduler_service.settings import SettingsError
from scheduler_service.settings.sources import is_exposed, read_env_file
from scheduler_service.system_jobs.alert_jobs import find_troubles
from scheduler_service.transport.errors import PolicyError

PART_SECONDS = 15.0
"""What a part may take: a server that hangs holds up the examination no longer."""

LONGEST_REASON = 200
SETTINGS = ExaminedPart("settings")
Examine = Callable[[ExaminedService], Awaitable[list[DoctorFinding]]]


async def examine_settings(subject: ExaminedService) -> list[DoctorFinding]:
    """Raises nothing."""
    return [_exposure(subject), _egress(subject), *_files(subject), *_alerts(subject)]


def _exposure(subject: ExaminedService) -> DoctorFinding:
    server = subject.loaded.settings.server
    try:
        check_exposure(subject.loaded.settings)
    except (SettingsError, StoreError) as error:
        detail, _, remedy = str(error).partition("; ")
        return SETTINGS.fail("key", detail, remedy)
    if server.key is None:
        return SETTINGS.well("key", "none: this machine alone is served")
    return SETTINGS.well("key", "set: every request needs it")


def _egress(subject: ExaminedService) -> DoctorFinding:
    egress = subject.loaded.settings.egress
    try:
        egress_of(subject.loaded)
    except PolicyError as error:
        return SETTINGS.fail("egress", str(error), "write hosts, *.host or networks in egress.allow and deny")
    if egress is None:
        allowed = "public addresses" if subject.loaded.has_file else "public addresses and loopback"
        return SETTINGS.well("egress", f"jobs may reach {allowed}")
    if everywhere := [entry for entry in egress.allow if _is_everywhere(entry)]:
        detail = (
            f"egress.allow has {', '.join(everywhere)}: jobs may reach every machine of the inner network"
        )
        return SETTINGS.warn("egress", detail, "name the hosts or networks of your targets instead")
    return SETTINGS.well(
        "egress", f"jobs may reach public addresses and {len(egress.allow)} entries of egress.allow"
    )


def _is_everywhere(entry: str) -> bool:
    try:
        return ip_network(entry, strict=False).prefixlen == 0
    except ValueError:
        return False


def _files(subject: ExaminedService) -> Iterator[DoctorFinding]:
    if subject.config is not None:
        yield _judge_rights("config", subject.config)
    named = subject.loaded.settings.env_file
    if named is not None:
        try:
            count = len(read_env_file(Path(named)))
        except SettingsError as error:
            yield SETTINGS.fail("env_file", str(error), "let this user read it, a line a variable")
        else:
            yield _judge_rights("env_file", Path(named), f" ({count} variables)")
    told = {str(subject.config), named}
    if others := [one for one in subject.loaded.exposed_files() if one not in told]:
        detail = f"{', '.join(others[:MOST_NAMED])} can be read by every user of this machine"
        yield SETTINGS.warn(
            "secrets", detail, "chmod o-r, and replace the secrets if others may have read them"
        )


def _alerts(subject: ExaminedService) -> Iterator[DoctorFinding]:
    settings = subject.loaded.settings
    try:
        around = examined_surroundings(subject.loaded, topics=subject.is_node)
    except (SettingsError, PolicyError):
        return  # told above
    for name, trouble in find_troubles(settings, around).items():
        remedy = "correct it, or give the variable that it names; until then this alert is not sent"
        yield SETTINGS.warn(f"alert {name}", trouble, remedy)


def _judge_rights(check: str, place: Path, more: str = "") -> DoctorFinding:
    if is_exposed(place):
        detail = f"{place} can be read by every user of this machine{more}"
        return SETTINGS.warn(check, detail, f"if it has a key or a password: chmod o-r {place}")
    return SETTINGS.well(check, f"{place} can be read{more}")


PARTS: Mapping[str, Examine] = {
    "versions": examine_versions,
    "settings": examine_settings,
    "limits": examine_limits,
    "folder": examine_folder,
    "jobs": examine_jobs,
    "service": examine_service,
    "contexts": examine_contexts,
    "store": examine_store,
    "database": examine_database,
    "daprd": examine_daprd,
}


async def examine(
    subject: ExaminedService, *, parts: Mapping[str, Examine] = PARTS, seconds: float = PART_SECONDS
) -> list[DoctorFinding]:
    """The findings about every part that the settings name, in the order of `parts`. Never raises."""
    began = time.time() - time.monotonic()
    found: list[DoctorFinding] = []
    for name, look in parts.items():
        try:
            async with asyncio.timeout(seconds):
                found += await look(subject)
        except TimeoutError:
            remedy = "see why it hangs: a full disk, a server that is frozen, or a network that drops packets"
            found.append(ExaminedPart(name).fail("answer", f"no answer within {seconds:g} s", remedy))
        except Exception as error:  # noqa: BLE001 - what answers there may say anything; the others are looked at
            said = f"what was found cannot be read ({type(error).__name__}: {str(error)[:LONGEST_REASON]})"
            found.append(ExaminedPart(name).fail("answer", said, "see that it is what the settings name"))
    return [*found, *judge_step(time.time() - time.monotonic() - began)]
