"""All parts together, and the settings: exposure, egress, and the rights of files with secrets."""

import asyncio
import base64
import os
import resource
import shutil
import time
from pathlib import Path

import msgspec
import pytest

from scheduler_service.app.data_folder import history_address
from scheduler_service.maintenance.doctor import examine, examine_settings
from scheduler_service.maintenance.doctor_findings import (
    DoctorFinding,
    ExaminedPart,
    ExaminedService,
    FindingState,
    worst_of,
)
from scheduler_service.maintenance.doctor_folder import examine_folder, kind_of
from scheduler_service.maintenance.doctor_machine import (
    examine_versions,
    find_wrong,
    judge,
    judge_difference,
    judge_step,
)
from scheduler_service.maintenance.folder_formats import migrate_folder
from scheduler_service.persistence.sqlite.folder_lock import REPAIRING, RESTORING, FolderLock
from scheduler_service.settings import Settings
from tests.unit.client_sdk.signed import NEW
from tests.unit.maintenance.subjects import states, subject


async def test_a_part_that_hangs_holds_up_no_other() -> None:
    """It is failed, and the next one is examined."""

    async def hang(_: ExaminedService) -> list[DoctorFinding]:
        await asyncio.get_running_loop().create_future()
        return []

    async def answer(_: ExaminedService) -> list[DoctorFinding]:
        return [ExaminedPart("second").well("here", "it is")]

    found = await examine(subject(), parts={"first": hang, "second": answer}, seconds=0.01)
    assert found[0].part == "first"
    assert states(found)["answer"] == "failed"
    assert states(found)["here"] == "ok"
    assert worst_of(found) is FindingState.FAILED


async def test_a_part_that_cannot_be_read_holds_up_no_other() -> None:
    """A server may say anything: there is no stack trace."""

    async def stumble(_: ExaminedService) -> list[DoctorFinding]:
        raise TypeError("what is this?")

    async def answer(_: ExaminedService) -> list[DoctorFinding]:
        return [ExaminedPart("second").well("here", "it is")]

    found = await examine(subject(), parts={"first": stumble, "second": answer})
    assert (found[0].part, found[0].state, states(found)["here"]) == ("first", "failed", "ok")
    assert "TypeError: what is this?" in found[0].detail


async def test_the_clock_is_looked_at_last() -> None:
    """What was measured is over the whole examination."""
    found = await examine(subject(), parts={})
    assert [one.check for one in found] == ["kept right", "step"]
    assert worst_of(found) in (FindingState.OK, FindingState.WARNING)


KEY = "a-key-that-nobody-sees"


async def test_the_key_is_judged_and_not_shown() -> None:
    """All addresses without a key would be refused at the start."""
    assert states(await examine_settings(subject()))["key"] == "ok"
    assert states(await examine_settings(subject(server__host="0.0.0.0")))["key"] == "failed"
    findings = await examine_settings(subject(server__host="0.0.0.0", server__key=KEY))
    assert states(findings)["key"] == "ok"
    assert KEY not in str(findings)
    proxies = {"trusted_proxies": ["0.0.0.0/0"], "trusted_user_header": "X-User", "key": KEY}
    users = {f"server__{name}": value for name, value in proxies.items()}
    users["server__external_url"] = "https://jobs.example"
    assert states(await examine_settings(subject(**users)))["key"] == "ok", "none but this machine"
    for given, state in (({}, "failed"), ({"server__trusted_proxies": ["10.0.0.0/8"]}, "ok")):
        findings = await examine_settings(subject(**users | {"server__host": "0.0.0.0"} | given))
        assert states(findings)["key"] == state


async def test_egress_to_everywhere_is_a_warning() -> None:
    """A network of a few is not."""
    for entries, state in ((["10.0.0.0/8"], "ok"), (["0.0.0.0/0"], "warning"), (["::/0"], "warning")):
        assert states(await examine_settings(subject(egress={"allow": entries})))["egress"] == state


async def test_files_that_everybody_reads_are_a_warning(tmp_path: Path) -> None:
    """The file of settings, and that of variables; one that cannot be read is failed. No value is shown."""
    config, variables = tmp_path / "p.toml", tmp_path / "env.sh"
    config.write_text("", encoding="utf-8")
    variables.write_text(f"TOKEN={KEY}\n", encoding="utf-8")
    config.chmod(0o600)
    variables.chmod(0o644)
    given = msgspec.structs.replace(subject(env_file=str(variables)), config=config)
    findings = await examine_settings(given)
    assert {name: states(findings)[name] for name in ("config", "env_file")} == {
        "config": "ok",
        "env_file": "warning",
    }
    assert KEY not in str(findings)
    key, folder = tmp_path / "seal", tmp_path / "secrets"
    (folder / "team").mkdir(parents=True)
    (folder / "OWN").touch(0o600)
    for place in (key, folder / "HOOK", folder / "team" / "HOOK"):
        place.touch(0o644)
    (told,) = [
        one
        for one in await examine_settings(subject(secrets_key_file=str(key), secrets_dir=str(folder)))
        if one.check == "secrets"
    ]
    assert told.state is FindingState.WARNING
    assert told.detail.partition(" can be read")[0] == ", ".join(
        map(str, (key, folder / "HOOK", folder / "team" / "HOOK"))
    )
    variables.write_text("this is no variable\n", encoding="utf-8")
    assert states(await examine_settings(given))["env_file"] == "failed"


async def test_an_alert_that_cannot_be_sent_is_a_warning() -> None:
    """By its name, with the variable that it lacks; one that can be sent is no line."""
    alerts = [
        {"name": "ops", "on": ["failing"], "url": "http://${CHAT}/send"},
        {"name": "well", "on": ["failing"], "url": "https://chat.test/send"},
    ]
    findings = await examine_settings(subject(alerts=alerts))
    told = [one for one in findings if one.check.startswith("alert ")]
    assert [(one.check, one.state) for one in told] == [("alert ops", "warning")]
    assert "alerts.0.url" in told[0].detail
    assert "no variable CHAT" in told[0].detail


async def test_an_alert_whose_secret_is_missing_is_a_warning() -> None:
    """Unless the service may have stored it, where nobody looks."""
    alerts = [
        {"name": name, "on": ["failing"], "url": "https://chat.test/send", "sign": name}
        for name in ("none", "hooks")
    ]
    alerts.append(
        {
            "name": "gone",
            "on": ["failing"],
            "url": "https://chat.test/",
            "headers": {"X-Key": "${secrets.gone}"},
        }
    )
    secrets = {"signing__secrets": {"default": {"hooks": NEW}}}
    for stored, warned in (
        ({}, ["alert none", "alert gone"]),
        ({"secrets_key": base64.b64encode(b"k" * 32).decode()}, []),
    ):
        findings = await examine_settings(subject(alerts=alerts, **secrets, **stored))
        assert [one.check for one in findings if one.check.startswith("alert ")] == warned


async def test_what_is_installed_will_do() -> None:
    """With the extras that the settings need."""
    findings = await examine_versions(subject(contexts__url="redis://127.0.0.1:1/0"))
    assert set(states(findings).values()) == {"ok"}
    assert any("base, service, redis" in one.detail for one in findings)


def test_packages_that_will_not_do_are_named() -> None:
    """Missing or too old; marks and extras of a requirement are left aside."""
    given = [
        "httpx>=0.28",
        "httpx>=999; python_version > '3'",
        "dapr[fastapi]==1.19.*; extra == 'dapr'",
        "no-such-package-at-all>=1",
    ]
    wrong = list(find_wrong(given))
    assert [text.partition(" ")[0] for text in wrong if not text.startswith("dapr")] == [
        "httpx",
        "no-such-package-at-all",
    ]
    assert "999 or later is needed" in wrong[0]


def test_limits_are_judged_as_the_service_divides_them() -> None:
    """The hard limit counts; a setting that leaves nothing for calls is failed."""
    assert states(judge(subject(), 65_536)) == {"descriptors": "ok"}
    assert states(judge(subject(), resource.RLIM_INFINITY)) == {"descriptors": "ok"}
    assert states(judge(subject(), 256)) == {"descriptors": "warning"}
    assert states(judge(subject(limits__connections=65_430), 65_536)) == {"descriptors": "failed"}


def test_a_step_of_the_wall_clock_is_a_warning() -> None:
    """In either direction, with its size."""
    assert states(judge_step(0.001))["step"] == "ok"
    assert states(judge_step(-2.5))["step"] == "warning"
    assert any("-2.50 s" in one.detail for one in judge_step(-2.5))


def test_clocks_that_differ_are_a_warning() -> None:
    """More than a second, beside what the other one leaves out."""
    now = time.time()
    for theirs, between, state in (
        (now, (now, now), "ok"),
        (now - 30, (now, now), "warning"),
        (now + 30, (now, now), "warning"),
        (now + 30, (now, now + 60), "ok"),  # the answer took a minute
        (now + 59, (now, now + 30), "warning"),
    ):
        assert states([judge_difference("x", theirs, between)]) == {"x": state}, (theirs - now, between)
    assert states([judge_difference("x", float(int(now)), (now, now), resolution=1.0)]) == {"x": "ok"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One that a service has made."""
    made = tmp_path / "data"
    migrate_folder(made, history_address(Settings(), made))
    return made


def content(folder: Path) -> dict[str, tuple[bytes, int]]:
    """name → bytes and moment of the last change."""
    return {place.name: (place.read_bytes(), place.stat().st_mtime_ns) for place in folder.iterdir()}


async def test_a_sound_folder(folder: Path) -> None:
    """Every check is well, nothing is left behind, and the lock can be had afterwards."""
    before = sorted(place.name for place in folder.iterdir())
    found = states(await examine_folder(subject(folder)))
    assert {name: found[name] for name in ("exists", "rights", "lock", "files")} == dict.fromkeys(
        ("exists", "rights", "lock", "files"), "ok"
    )
    assert found["fsync"] in ("ok", "warning")  # a busy disk may be slow
    assert sorted(place.name for place in folder.iterdir()) == before
    FolderLock.claim(folder).release()


async def test_a_folder_in_use_is_not_touched(folder: Path) -> None:
    """Its process is named, and neither bytes nor times of its files change."""
    lock = FolderLock.claim(folder)
    before, times = content(folder), folder.stat().st_mtime_ns
    findings = await examine_folder(subject(folder))
    said = {one.check: one.detail for one in findings}
    assert said["lock"] == f"process {os.getpid()} uses it"
    assert "fsync" not in said
    assert "files" not in said
    assert (content(folder), folder.stat().st_mtime_ns) == (before, times)
    lock.release()


async def test_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    """Is no fault, and is not made."""
    assert states(await examine_folder(subject(tmp_path / "new" / "data"))) == {"exists": "ok"}
    assert not (tmp_path / "new").exists()


async def test_a_file_in_its_place(tmp_path: Path) -> None:
    """Is named."""
    (tmp_path / "data").write_text("", encoding="utf-8")
    (one,) = await examine_folder(subject(tmp_path / "data"))
    assert (one.state, "no folder" in one.detail) == ("failed", True)


@pytest.mark.parametrize(("user", "state"), [(0, "ok"), (1, "failed")])
async def test_files_of_another_user_are_failed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, user: int, state: str
) -> None:
    """Root alone may use them all the same."""
    owner = folder.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: user and owner + user)
    assert states(await examine_folder(subject(folder)))["rights"] == state


@pytest.mark.parametrize("mark", [RESTORING, REPAIRING])
async def test_half_a_backup_or_repair_is_failed(folder: Path, mark: str) -> None:
    """The service would refuse it."""
    (folder / mark).touch()
    assert states(await examine_folder(subject(folder)))["files"] == "failed"


async def test_a_missing_file_is_failed(folder: Path) -> None:
    """As when the files were copied one by one."""
    shutil.move(folder / "state.db", folder / "state-1.db")
    findings = await examine_folder(subject(folder))
    assert states(findings)["files"] == "failed"
    assert any("state-1.db" in one.detail for one in findings)


async def test_a_folder_of_locks_alone(tmp_path: Path, folder: Path) -> None:
    """The jobs are on a server: the disk is needed for locks alone, and jobs must not be here."""
    url = "postgresql://me@127.0.0.1:1/x"
    FolderLock.claim(tmp_path / "locks").release()
    findings = await examine_folder(subject(tmp_path / "locks", store__url=url))
    assert states(findings) == dict.fromkeys(("exists", "rights", "lock", "fsync", "files"), "ok")
    assert "store.url" in findings[-1].detail
    with_history = subject(tmp_path / "locks", store__url=url, database__url=f"sqlite:///{tmp_path}/h.db")
    assert "disk" in states(await examine_folder(with_history))
    assert states(await examine_folder(subject(folder, store__url=url)))["files"] == "failed"


async def test_files_that_others_can_read_are_a_warning(folder: Path) -> None:
    """They hold the keys of feedback tokens."""
    (folder / "state.db").chmod(0o644)
    assert states(await examine_folder(subject(folder)))["rights"] == "warning"


def test_the_kind_of_a_file_system_is_that_of_the_nearest_mount(tmp_path: Path) -> None:
    """Not that of the root, and of two mounts at one place the later one."""
    table = tmp_path / "mounts"
    own = tmp_path.resolve()
    table.write_text(
        f"/dev/a / ext4 rw 0 0\n/dev/b {own} xfs rw 0 0\nserver:/c {own} nfs4 rw 0 0\n"
        "/dev/d /elsewhere btrfs rw 0 0\n",
        encoding="utf-8",
    )
    assert kind_of(own / "data", table) == "nfs4"
    assert kind_of(Path("/"), table) == "ext4"
    assert kind_of(own, tmp_path / "absent") == "unknown"
