"""The settings: who is served, what jobs may reach, and who can read the files with secrets."""

import stat
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path

import msgspec

from scheduler_service.app.alert_jobs import find_troubles
from scheduler_service.app.builders import egress_of, judge_of
from scheduler_service.app.doctor.finding import DoctorFinding, ExaminedPart, ExaminedService
from scheduler_service.app.server import check_exposure
from scheduler_service.app.surroundings import make_surroundings
from scheduler_service.settings import SettingsError
from scheduler_service.settings.sources import read_env_file
from scheduler_service.transport.errors import PolicyError

SETTINGS = ExaminedPart("settings")


async def examine_settings(subject: ExaminedService) -> list[DoctorFinding]:
    """Raises nothing."""
    return [_exposure(subject), _egress(subject), *_files(subject), *_alerts(subject)]


def _exposure(subject: ExaminedService) -> DoctorFinding:
    server = subject.loaded.settings.server
    try:
        check_exposure(subject.loaded.settings)
    except SettingsError as error:
        remedy = "set server.key (PUNCTUAL_SERVER__KEY), or listen on 127.0.0.1"
        return SETTINGS.fail("key", str(error).partition(";")[0], remedy)
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


def _alerts(subject: ExaminedService) -> Iterator[DoctorFinding]:
    settings = subject.loaded.settings
    try:
        around = make_surroundings(settings, "http://127.0.0.1", judge_target=judge_of(subject.loaded))
    except (SettingsError, PolicyError):
        return  # told above
    around = msgspec.structs.replace(around, topics=subject.is_node)
    for name, trouble in find_troubles(settings, around).items():
        remedy = "correct it, or give the variable that it names; until then this alert is not sent"
        yield SETTINGS.warn(f"alert {name}", trouble, remedy)


def _judge_rights(check: str, place: Path, more: str = "") -> DoctorFinding:
    if stat.S_IMODE(place.stat().st_mode) & stat.S_IROTH:
        detail = f"{place} can be read by every user of this machine{more}"
        return SETTINGS.warn(check, detail, f"if it has a key or a password: chmod o-r {place}")
    return SETTINGS.well(check, f"{place} can be read{more}")
