"""Settings: exposure, egress, and the rights of files with secrets."""

from pathlib import Path

import msgspec

from scheduler_service.app.doctor.settings import examine_settings
from tests.unit.app.doctor.subjects import states, subject

KEY = "a-key-that-nobody-sees"


async def test_the_key_is_judged_and_not_shown() -> None:
    """All addresses without a key would be refused at the start."""
    assert states(await examine_settings(subject()))["key"] == "ok"
    assert states(await examine_settings(subject(server__host="0.0.0.0")))["key"] == "failed"
    findings = await examine_settings(subject(server__host="0.0.0.0", server__key=KEY))
    assert states(findings)["key"] == "ok"
    assert KEY not in str(findings)


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
