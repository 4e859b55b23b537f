"""Where settings come from, and how wrong ones are refused (SPEC section 16)."""

import re
from pathlib import Path

import pytest

from scheduler_service.settings import SettingsError, load_settings
from scheduler_service.settings.sources import read_env_file
from tests.rows import each_row
from tests.unit.docs.pages import PAGES
from tests.unit.settings.loading import refusal, shown, write


def test_the_first_place_that_has_a_setting_wins(tmp_path: Path) -> None:
    """Command line, then environment, then file, then default; each value names its source (16)."""
    config = write(
        tmp_path, "[server]\nport = 1\nhost = '::1'\ndrain_seconds = 5\n[limits]\nbody_bytes = 10\n"
    )
    environ = {"PUNCTUAL_SERVER__PORT": "2", "PUNCTUAL_SERVER__HOST": "localhost"}
    found = shown(load_settings({"server.port": 3}, environ, config))
    assert found["server.port"] == (3, "command line")
    assert found["server.host"] == ("localhost", "environment")
    assert found["server.drain_seconds"] == (5, f"file {config}")
    assert found["limits.body_bytes"] == (10, f"file {config}")
    assert found["limits.ready"] == (100_000, "default")


@each_row(
    ("name", "said"),
    [
        ("PUNCTUAL_SERVER__PROT", "unknown setting server.prot (environment)"),
        ("PUNCTUAL_SREVER__PORT", "unknown setting srever"),
        ("PUNCTUAL_TEST_THING", "unknown setting test_thing"),
        ("PUNCTUAL_PORT", "unknown setting port"),
        ("PUNCTUAL_SERVER_PORT", "unknown setting server_port"),
        ("PUNCTUAL_SERVER__SERVICE_PORT", "unknown setting server.service_port"),
        ("PUNCTUAL_EGRESS__ALOW", "known in its group: allow, client_certificates, deny, follow"),
    ],
)
def test_an_unknown_name_is_refused_by_name(name: str, said: str) -> None:
    """A typo is never silently ignored, and the known names are listed (16)."""
    assert said in refusal({name: "1"})


def test_a_wrong_value_is_refused_though_it_is_overruled() -> None:
    """A wrong value in the environment is refused whatever the command line has (16)."""
    with pytest.raises(SettingsError, match=r"server\.port = 'abc' \(environment\)"):
        load_settings({"server.port": 0}, {"PUNCTUAL_SERVER__PORT": "abc"})
    # `server.port.x` is a mistake that is named, not a crash
    environ = {"PUNCTUAL_SERVER__PORT": "1", "PUNCTUAL_SERVER__PORT__X": "2"}
    assert "single value" in refusal(environ)


def test_lists_and_tables_of_the_environment_are_json() -> None:
    """`PUNCTUAL_EGRESS__ALLOW` is JSON; names are lower-cased (16)."""
    environ = {
        "PUNCTUAL_EGRESS__ALLOW": '["127.0.0.1", "*.example.org"]',
        "PUNCTUAL_SERVICES__STATIC": '{"billing": "http://10.1.0.7:8080/"}',
    }
    settings = load_settings({}, environ).settings
    assert settings.egress is not None
    assert settings.egress.allow == ("127.0.0.1", "*.example.org")
    assert settings.services.static == {"billing": ("http://10.1.0.7:8080",)}
    # Names under `env` keep their letters and values are texts, whatever they look like
    environ = {
        "PUNCTUAL_ENV__default__Api_Base": "http://x",
        "PUNCTUAL_ENV__default__LIST": "[1]",
        "PUNCTUAL_ENV__default__A__B": "{",
    }
    settings = load_settings({}, environ).settings
    assert settings.env == {"default": {"Api_Base": "http://x", "LIST": "[1]", "A__B": "{"}}


def test_secrets_are_taken_as_written_and_never_shown(tmp_path: Path) -> None:
    """A text or a list of two, by tenant and name; no value is in what is shown (14, 16)."""
    environ = {
        "PUNCTUAL_SECRETS__DEFAULT__Shop_Token": "t0p-secret",
        "PUNCTUAL_SECRETS__default__Two": '["newest one", "before it"]',
        "PUNCTUAL_SECRETS__team__ACCOUNT": '{"a": 1}',
        "PUNCTUAL_ENV__default__API_KEY": "k3y-of-env",
        "PUNCTUAL_ENV__default__REGION": "eu-north",
    }
    config = write(tmp_path, "[secrets.default]\nIn_File = 'from the file'\n")
    loaded = load_settings({}, environ, config)
    assert loaded.settings.secrets == {
        "default": {
            "In_File": ("from the file",),
            "Shop_Token": ("t0p-secret",),
            "Two": ("newest one", "before it"),
        },
        "team": {"ACCOUNT": ('{"a": 1}',)},
    }
    described = loaded.describe()
    assert described["secrets.default.Shop_Token"] == {"value": "***", "source": "environment"}
    assert described["secrets.default.In_File"] == {"value": "***", "source": f"file {config}"}
    assert described["env.default.API_KEY"] == {"value": "***", "source": "environment"}
    assert described["env.default.REGION"] == {"value": "eu-north", "source": "environment"}
    shown_texts = str(described)
    for value in ("t0p-secret", "newest one", "before it", '"a"', "k3y-of-env", "from the file"):
        assert value not in shown_texts


@pytest.mark.parametrize(
    "variable",
    ["SECRETS", "SECRETS__default", "SECRETS__default__A", "SECRETS__default__1A", "SECRETS__.x__A"],
)
def test_a_refused_secret_is_named_and_not_shown(variable: str) -> None:
    """Whatever of it is wrong (14)."""
    value = "hid" if variable.endswith("t__A") else "hidden-value"
    said = refusal({f"PUNCTUAL_{variable}": value})
    assert said.startswith("secrets")
    assert "'hid" not in said
    assert "hidden-value" not in said


@each_row(
    "variable",
    [
        "ENV",
        "ENV__default",
        "ALERTS",
        "SERVER",
        "DAPR",
        "SIGNING",
        "SECRETS__default",
        "TRACES__HEADERS",
        "TRACES",
    ],
)
@each_row(
    "value", ['{"X_TOKEN":"hidden-value",}', "X_TOKEN=hidden-value", '["hidden-value"]', '[{"hidden-value"']
)
def test_a_refused_table_is_named_and_not_shown(variable: str, value: str) -> None:
    """It may have secrets in it: the message has its name, and where it ceases to be JSON (14)."""
    said = refusal({f"PUNCTUAL_{variable}": value})
    assert said.startswith(f"{variable.lower().replace('__', '.')}")
    assert "hidden-value" not in said
    if value.endswith(",}"):
        assert "at character 27" in said


def test_a_refused_table_of_a_table_is_not_shown() -> None:
    """Where one value is wanted (14)."""
    for value in ('{"default": {"A": {"b": "hidden-value"}}}', '{"default": {"A": ["hidden-value"]}}'):
        assert refusal({"PUNCTUAL_ENV": value}).startswith("env.default.A = (hidden) (environment): ")


def test_variables_of_several_places_come_together(tmp_path: Path) -> None:
    """A table of the file and single names of the environment are one table; the environment wins (16)."""
    config = write(tmp_path, "[env.default]\nA = 'file'\nB = 'file'\n")
    settings = load_settings({}, {"PUNCTUAL_ENV__default__B": "own"}, config).settings
    assert settings.env == {"default": {"A": "file", "B": "own"}}


def test_an_env_file_is_read_and_never_executed(tmp_path: Path) -> None:
    """Lines `[export ]NAME=value`; what a shell would run or expand is text (4)."""
    path = tmp_path / "env.sh"
    path.write_text(
        "#!/bin/sh\n\nexport BASE='http://x/'\nHOST=\"h\"\nRUN=$(touch gone)\nREF=${HOME}\nEMPTY=\n",
        encoding="utf-8",
    )
    assert read_env_file(path) == {
        "BASE": "http://x/",
        "HOST": "h",
        "RUN": "$(touch gone)",
        "REF": "${HOME}",
        "EMPTY": "",
    }
    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize("line", ["rm -rf /", "1A=2", "=x", "A B=1", "if true; then", "PASSWORD: s3cret"])
def test_a_line_that_sets_nothing_is_refused_with_its_number(tmp_path: Path, line: str) -> None:
    """An env_file with anything else is refused, naming the line (4), which may have a secret in it."""
    path = tmp_path / "env.sh"
    path.write_text(f"A=1\n{line}\n", encoding="utf-8")
    with pytest.raises(SettingsError, match="line 2") as refused:
        read_env_file(path)
    assert line not in str(refused.value)


@pytest.mark.parametrize("value", ["1; export A", "1;", "1 ; B=2", "'1'; export A"])
def test_a_second_command_of_a_line_is_refused(tmp_path: Path, value: str) -> None:
    """A shell would end the value at `;`; the message has file and line, and never the value (4)."""
    path = tmp_path / "env.sh"
    path.write_text(f"B=1\nA={value}\n", encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        read_env_file(path)
    assert str(caught.value) == (
        f"env_file {path}:2: the value of A goes on after ';', which ends it in a shell and is text here: "
        "write one [export ]NAME=value a line, or put the whole value in quotes"
    )


def test_quotes_keep_what_they_enclose(tmp_path: Path) -> None:
    """Only quotes around the whole value are removed, and '#' begins no comment behind one (4)."""
    path = tmp_path / "env.sh"
    path.write_text("A='1; 2'\nB=a;b\nC=1 # no comment\n# one\n", encoding="utf-8")
    assert read_env_file(path) == {"A": "1; 2", "B": "a;b", "C": "1 # no comment"}
    # A missing env_file is named
    with pytest.raises(SettingsError, match=r"env_file .*missing\.sh cannot be read"):
        read_env_file(tmp_path / "missing.sh")


def test_one_more_address_is_allowed_where_egress_is_configured(tmp_path: Path) -> None:
    """`punctual demo --config` reaches its own target, and nothing else that the file does not allow (16)."""
    assert load_settings({}, {}).allowing("127.0.0.1").settings.egress is None
    bare = load_settings({}, {}, write(tmp_path, "[server]\nport = 1\n")).allowing("127.0.0.1")
    assert bare.settings.egress is not None
    assert (bare.settings.egress.allow, bare.settings.server.port) == (("127.0.0.1",), 1)
    text = '[egress]\nallow = ["10.0.0.0/8"]\ndeny = ["127.0.0.0/8"]\n'
    given = load_settings({}, {}, write(tmp_path, text)).allowing("127.0.0.1").settings.egress
    assert given is not None
    assert (given.allow, given.deny) == (("10.0.0.0/8", "127.0.0.1"), ("127.0.0.0/8",))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[server\n", "is not valid TOML"),
        ("port = 1\n", "unknown setting port"),
        ("server = 1\n", "server = 1"),
        ("[server]\nport = [1]\n", "server.port"),
        ("[[defaults.retry]]\nerrorEquals = '*'\nmaxAtempts = 3\n", "group: backoffRate, errorEquals, "),
        ("[services]\nheartbeat_seconds = 10\n", "heartbeat_seconds is not below offline_seconds (10)"),
        ("[server]\nport = '8000'\n", "write the number without quotes"),
        ("[metrics]\nenabled = 'yes'\n", "write true or false without quotes"),
        ("[services]\nlost_after_seconds = '5'\n", "write the number without quotes"),
        ("[history.retain_days_by_outcome]\nfailed = '5'\n", "write the number without quotes"),
        ("[tenants.a.limits]\njobs = '5'\n", "write the number without quotes"),
        ("[services.static]\n'shop-' = 'http://a.test'\n", "is not a service name; use at most 128"),
        ("[services.static]\n'10.0.0.1' = 'http://a.test'\n", "is read as a numeric address"),
        ("\ufeff[server]\nport = [1]\n", "server.port"),
    ],
)
def test_a_file_that_is_wrong_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """TOML errors, unknown and wrong settings name the file (16)."""
    message = refusal({}, write(tmp_path, text))
    assert said in message
    assert "punctual.toml" in message


def test_a_file_without_an_end_is_refused(tmp_path: Path) -> None:
    """It is read no further than a file of settings may be long; so is the file of variables."""
    endless = tmp_path / "endless"
    endless.symlink_to("/dev/zero")
    for read in (lambda: load_settings({}, {}, endless), lambda: read_env_file(endless)):
        with pytest.raises(SettingsError, match="larger than 1,048,576 bytes"):
            read()
    # A file that is nested too deep is refused: in words, and in few
    config = tmp_path / "deep.toml"
    config.write_text("a = " + "[" * 100_000)
    with pytest.raises(SettingsError, match="nested too deep") as refused:
        load_settings({}, {}, config)
    assert len(str(refused.value)) < 500
    # A configuration that was named must be there
    assert "cannot be read" in refusal({}, tmp_path / "none.toml")


def test_what_others_put_into_the_environment_is_left_alone() -> None:
    """Names without the prefix, and those of the command line and the scripts, are no settings (16)."""
    environ = {"PATH": "/bin", "PUNCTUAL_URL": "x", "PUNCTUAL_KEY": "y", "PUNCTUAL_CONFIG": "z"}
    assert load_settings({}, environ).sources == {}
    # What kubernetes sets for a service is passed over
    loaded = load_settings({}, {**LINKS, "PUNCTUAL_SERVER__PORT": "9000", "PATH": "/bin"})
    assert loaded.passed_over == tuple(sorted(LINKS))
    assert loaded.sources == {"server.port": "environment"}


LINKS = {
    f"{name}_{rest}": value
    for name in ("PUNCTUAL", "PUNCTUAL_HEADLESS", "PUNCTUAL_2")
    for rest, value in {
        "SERVICE_HOST": "10.96.0.17",
        "SERVICE_PORT": "8000",
        "SERVICE_PORT_HTTP": "8000",
        "SERVICE_PORT_HTTP_2": "8001",
        "PORT": "tcp://10.96.0.17:8000",
        "PORT_8000_TCP": "tcp://10.96.0.17:8000",
        "PORT_8000_TCP_PROTO": "tcp",
        "PORT_8000_TCP_PORT": "8000",
        "PORT_8000_TCP_ADDR": "fd00::17",
        "PORT_53_UDP": "udp://[fd00::17]:53",
    }.items()
}


def test_every_name_that_the_documents_give_is_taken() -> None:
    """What they say is no setting, but read by the command line, a script or a benchmark (16)."""
    texts = " ".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = set(re.findall(r"PUNCTUAL_[A-Z]+(?:_[A-Z]+)*(?![A-Z_])", texts)) - {
        "PUNCTUAL_ALERTS",
        "PUNCTUAL_ENV_FILE",
        "PUNCTUAL_PORT",
        "PUNCTUAL_SECRETS_DIR",
        "PUNCTUAL_SECRETS_KEY",
        "PUNCTUAL_SECRETS_KEY_FILE",
    }
    assert {"PUNCTUAL_BENCH_CACHE", "PUNCTUAL_DAPR_BIN", "PUNCTUAL_URL"} <= named
    assert load_settings({}, dict.fromkeys(named, "x")).sources == {}
