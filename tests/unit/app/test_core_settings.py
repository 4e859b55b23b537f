"""What the settings say to jobs: defaults, environment, feedback addresses, egress
(SPEC sections 2, 3, 4, 5 and 9)."""

import json
from pathlib import Path
from typing import Any

import pytest

from client_sdk.models import parse_definition
from scheduler_service.app.core_settings import DefinitionCompiler, make_surroundings
from scheduler_service.domain.errors import DefinitionError
from scheduler_service.engine.compile_cache import read_members
from scheduler_service.engine.program import Program, Surroundings
from scheduler_service.settings import SettingsError, load_settings
from tests.rows import each_row

SERVED = "http://127.0.0.1:8000"
BASE: dict[str, Any] = {"jobId": "j", "jobName": "a job", "creator": "1", "creatorName": "one"}
BASE["request"] = [{"url": "http://t.test/"}]


def surroundings(**environ: str) -> Surroundings:
    """What programs are told, with these variables of the process's environment."""
    return make_surroundings(load_settings({}, environ), SERVED)


def compiler_of(settings: dict[str, Any]) -> DefinitionCompiler:
    """The compiler of a service with these settings."""
    loaded = load_settings(settings, {})
    return DefinitionCompiler(settings=loaded.settings, surroundings=make_surroundings(loaded, SERVED))


def posted(settings: dict[str, Any], tenant: str = "default", **members: Any) -> Program:
    """A definition as a service with these settings compiles it."""
    compiler = compiler_of(settings)
    return compiler.posted(parse_definition(BASE | members), tenant).program


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


@pytest.mark.parametrize(("due_time", "period"), [({}, "5"), ({}, "blah"), ({"dueTime": ""}, "R0/PT3S")])
async def test_a_stored_period_that_was_ignored_stays_ignored(due_time: dict[str, str], period: str) -> None:
    """An earlier version took it, and fired once: its jobs open, and are what they were (SPEC section 3)."""
    compiler = compiler_of({})
    stored = BASE | {"timer": {**due_time, "period": period}}
    text = json.dumps(stored).encode()
    assert [(await compiler.stored(text, "default")).timer.kind for _ in range(2)] == ["one_time"] * 2
    with pytest.raises(DefinitionError):
        posted({}, **stored)


async def test_a_stored_method_opens_and_is_no_way_in() -> None:
    """An earlier version took any word; its job goes on, and a new one of the same shape is refused."""
    compiler = compiler_of({})
    stored = BASE | {"request": [{"url": "http://t.test/", "method": "PURGE"}]}
    text = json.dumps(stored).encode()
    assert (await compiler.stored(text, "default")).steps[0].target.method == "PURGE"
    assert compiler.compile_cache.find(read_members(text) or {}) is None
    with pytest.raises(DefinitionError):
        posted({}, **stored)


@each_row(
    ("settings", "served", "unreachable"),
    [
        ({"server.host": "0.0.0.0"}, "http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ({"server.host": "::"}, "http://[::1]:8000", "http://[::1]:8000"),
        ({"server.host": "0.0.0.0"}, "http://192.0.2.7:8000", None),
        ({}, "http://127.0.0.1:8000", None),
        ({"server.host": "0.0.0.0", "server.external_url": "http://localhost:1"}, "http://localhost:1", None),
    ],
)
def test_a_service_that_others_cannot_reach_is_known(
    settings: dict[str, Any], served: str, unreachable: str | None
) -> None:
    """It listens to others, and no address that they reach was found (SPEC section 5)."""
    assert make_surroundings(load_settings(settings, {}), served).unreachable == unreachable


OF_ACME = {"tenants.acme": {"defaults": {"max_retries": 2, "history_detail": "none", "retry": []}}}


def test_defaults_of_a_tenant_take_precedence_over_the_platform_s() -> None:
    """For what a job leaves out; other tenants have the platform's (SPEC section 13)."""
    settings = {"defaults.max_retries": 9, "defaults.qos": 1, **OF_ACME}
    acme, other, own = posted(settings, "acme"), posted(settings), posted(settings, "acme", maxRetries=4)
    assert (acme.max_retries, acme.qos, acme.history_detail) == (2, 1, "none")
    assert (other.max_retries, other.qos, other.history_detail) == (9, 1, None)
    assert own.max_retries == 4


async def test_a_stored_definition_has_the_defaults_of_its_tenant() -> None:
    """Also where another tenant's of the same text was compiled before."""
    compiler, text = compiler_of(OF_ACME), json.dumps(BASE).encode()
    found = [(await compiler.stored(text, tenant)).max_retries for tenant in ("default", "acme", "default")]
    assert found == [5, 2, 5]


def test_an_option_says_where_it_comes_from() -> None:
    """Product, platform or tenant; the job's own value is told where the job is shown."""
    compiler = compiler_of({"defaults.qos": 1, **OF_ACME})
    acme, other = compiler.options("acme"), compiler.options("default")
    assert acme["maxRetries"] == {"value": 2, "source": "tenant"}
    assert acme["historyDetail"] == {"value": "none", "source": "tenant"}
    assert acme["qos"] == other["qos"] == {"value": 1, "source": "platform"}
    assert other["maxRetries"] == {"value": 5, "source": "product"}
    assert acme.keys() == other.keys()


def test_what_is_not_given_for_a_tenant_is_not_shown_as_its_own() -> None:
    """The environment names a tenant as it is written; a field that is no option of a job is refused."""
    environ = {"PUNCTUAL_TENANTS__Acme__defaults": '{"max_retries": 2}'}
    names = [name for name in load_settings({}, environ).describe() if name.startswith("tenants")]
    assert names == ["tenants.Acme.defaults.max_retries"]
    with pytest.raises(SettingsError, match="timezone"):
        load_settings({"tenants.acme": {"defaults": {"timezone": "UTC"}}}, {})


async def test_options_of_a_service_are_between_the_tenant_s_and_the_job_s() -> None:
    """Posted and stored, at the next start too: they lie in the definition."""
    compiler = compiler_of({"tenants.acme": {"defaults": {"max_retries": 2, "qos": 1}}})
    of_service = {
        "service": "billing",
        "maxRetries": 3,
        "historyDetail": "none",
        "retry": [{"errorEquals": "*"}],
    }
    for members, retries in (({}, 3), ({"maxRetries": 7}, 7)):
        value = BASE | {"serviceOptions": of_service} | members
        found = compiler.posted(parse_definition(value), "acme").program
        stored = await compiler.stored(json.dumps(value).encode(), "acme")
        for program in (found, stored):
            assert (program.max_retries, program.qos, program.history_detail) == (retries, 1, "none")
