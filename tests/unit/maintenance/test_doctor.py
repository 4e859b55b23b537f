"""All parts together, and the settings: exposure, egress, and the rights of files with secrets."""

import asyncio
import base64
from pathlib import Path

import msgspec

from scheduler_service.maintenance.doctor import examine, examine_settings
from scheduler_service.maintenance.doctor_findings import (
    DoctorFinding,
    ExaminedPart,
    ExaminedService,
    FindingState,
    worst_of,
)
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
