"""What the settings say to jobs: defaults, environment, feedback addresses, egress
(SPEC sections 2, 3, 4, 5 and 9)."""

from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from client_sdk.models import parse_definition
from scheduler_service.app.egress import admit_of, egress_of, log_egress
from scheduler_service.app.surroundings import Compiler, make_surroundings
from scheduler_service.engine.program import Program, Surroundings
from scheduler_service.settings import Loaded, load_settings
from scheduler_service.transport.errors import RefusedTarget

SERVED = "http://127.0.0.1:8000"
LOOPBACK = ["127.0.0.1", "::1", "127.9.9.9"]


def surroundings(**environ: str) -> Surroundings:
    """What programs are told, with these variables of the process's environment."""
    return make_surroundings(load_settings({}, environ).settings, SERVED)


def posted(settings: dict[str, Any], **members: Any) -> Program:
    """A definition as a service with these settings compiles it."""
    loaded = load_settings(settings, {}).settings
    compiler = Compiler(defaults=loaded.defaults, surroundings=make_surroundings(loaded, SERVED))
    base = {"jobId": "j", "jobName": "a job", "creator": "1", "creatorName": "one"}
    definition = parse_definition(base | {"request": [{"url": "http://t.test/"}]} | members)
    return compiler.posted(definition, make_surroundings(loaded, SERVED)).program


def opens(loaded: Loaded, addresses: list[str]) -> set[bool]:
    """Whether jobs may reach these addresses."""
    policy = egress_of(loaded)
    return {policy.refuse_address(text, ip_address(text)) is None for text in addresses}


def test_a_default_of_the_settings_holds_where_the_job_is_silent() -> None:
    """The settings of `defaults` fill in what a definition leaves out or gives as null (SPEC section 2)."""
    settings = {"defaults.max_retries": 9, "defaults.overlap_policy": "queue"}
    silent, null = posted(settings), posted(settings, maxRetries=None)
    assert (silent.max_retries, silent.overlap, null.max_retries) == (9, "queue", 9)
    own = posted(settings, maxRetries=1, overlapPolicy="skip")
    assert (own.max_retries, own.overlap) == (1, "skip")


def test_the_default_zone_comes_from_the_settings() -> None:
    """UTC as shipped; a timer's own zone wins (SPEC section 3)."""
    timer = {"dueTime": "0s", "period": "0 0 9 * * ?"}
    shanghai = {"defaults.timezone": "Asia/Shanghai"}
    assert posted({}, timer=timer).timer.zone.name == "UTC"
    assert posted(shanghai, timer=timer).timer.zone.name == "Asia/Shanghai"
    assert posted(shanghai, timer={**timer, "timezone": "Europe/Paris"}).timer.zone.name == "Europe/Paris"


def test_the_environment_of_the_process_is_not_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Templates see `env` of the settings and the file `env_file`, and nothing else (SPEC section 4)."""
    monkeypatch.setenv("SECRET_OF_THE_PROCESS", "s3cret")
    file = tmp_path / "env.sh"
    file.write_text("export REGION=eu\nBOTH=file\nCOPY=$SECRET_OF_THE_PROCESS\n", encoding="utf-8")
    given = {
        "PUNCTUAL_ENV__default__BOTH": "settings",
        "PUNCTUAL_ENV_FILE": str(file),
        "SECRET_OF_THE_PROCESS": "s3cret",
    }
    assert surroundings(**given).environment == {
        "REGION": "eu",
        "BOTH": "settings",
        "COPY": "$SECRET_OF_THE_PROCESS",
    }


def test_feedback_bases_are_settings_else_the_served_address() -> None:
    """`feedback.internal_url` and `feedback.external_url`; default the served address (SPEC section 5)."""
    plain = surroundings()
    assert (plain.internal_url, plain.external_url) == (SERVED, SERVED)
    outer = surroundings(PUNCTUAL_SERVER__EXTERNAL_URL="https://jobs.test")
    assert (outer.internal_url, outer.external_url) == (SERVED, "https://jobs.test")
    own = surroundings(
        PUNCTUAL_FEEDBACK__INTERNAL_URL="http://in.test",
        PUNCTUAL_FEEDBACK__EXTERNAL_URL="https://out.test",
        PUNCTUAL_SERVER__EXTERNAL_URL="https://jobs.test",
    )
    assert (own.internal_url, own.external_url) == ("http://in.test", "https://out.test")


def test_without_configuration_loopback_is_allowed_and_said_first() -> None:
    """`punctual serve` without configuration allows loopback and says so (SPEC section 9)."""
    loaded = load_settings({}, {})
    told: list[tuple[str, dict[str, Any]]] = []
    log_egress(loaded, lambda event, /, **keys: told.append((event, keys)))
    assert opens(loaded, LOOPBACK) == {True}
    assert opens(loaded, ["10.0.0.1", "169.254.169.254"]) == {False}
    [(event, keys)] = told
    assert event == "egress"
    assert keys["allow"] == ["127.0.0.0/8", "::1"]
    assert "loopback is allowed" in keys["note"]


def test_a_configuration_without_egress_refuses_loopback(tmp_path: Path) -> None:
    """Loopback and private ranges are refused unless allowed (SPEC section 9)."""
    file = tmp_path / "punctual.toml"
    file.write_text("[server]\nport = 9000\n", encoding="utf-8")
    loaded = load_settings({}, {}, file)
    told: list[dict[str, Any]] = []
    log_egress(loaded, lambda _event, /, **keys: told.append(keys))
    assert opens(loaded, [*LOOPBACK, "10.0.0.1"]) == {False}
    assert told == [{"allow": [], "deny": []}]
    narrow = load_settings({}, {"PUNCTUAL_EGRESS__ALLOW": '["10.0.0.0/8"]'})
    assert opens(narrow, ["10.0.0.1"]) == {True}
    assert opens(narrow, LOOPBACK) == {False}


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_only_a_key_vouches_for_an_instance_on_a_private_address(anyio_backend: str) -> None:
    """Addresses of instances may be private only from settings or with a key (SPEC section 9)."""
    admit = admit_of(load_settings({}, {}))
    assert admit is not None
    await admit("http://127.0.0.1:9000/base")
    await admit("http://93.184.215.14")
    for private in ("http://10.0.0.1", "http://192.168.0.1:81", "http://169.254.169.254", "http://[fe80::1]"):
        with pytest.raises(RefusedTarget):
            await admit(private)
    allowed = admit_of(load_settings({}, {"PUNCTUAL_EGRESS__ALLOW": '["10.0.0.0/8"]'}))
    assert allowed is not None
    await allowed("http://10.0.0.1")
    with pytest.raises(RefusedTarget):
        await allowed("http://127.0.0.1")
    assert admit_of(load_settings({}, {"PUNCTUAL_SERVER__KEY": "0123456789abcdef"})) is None
