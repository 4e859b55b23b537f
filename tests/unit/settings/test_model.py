"""What each setting may be, those of alerts too, and how it is shown (SPEC section 16)."""

import json
from pathlib import Path
from typing import Any, get_args

from scheduler_service.settings import load_settings
from scheduler_service.settings.alert_settings import WHOLE, Alert, Format
from scheduler_service.telemetry.alerts.alert_receivers import RECEIVERS
from tests.rows import each_row
from tests.unit.client_sdk.signed import NEW, OLD
from tests.unit.settings.loading import refusal, shown, write


@each_row(
    ("name", "value", "said"),
    [
        ("SERVER__PORT", "70000", "server.port = '70000' (environment)"),
        ("SERVER__WORKERS", "33", "server.workers = '33'"),
        ("SERVER__TRUSTED_USER_TENANT", "Default", "differs from 'default' by case alone"),
        ("DEFAULTS__TIMEZONE", "Mars/Olympus", "defaults.timezone = 'Mars/Olympus'"),
        ("DEFAULTS__QOS", "2", "defaults.qos"),
        ("EGRESS__ALLOW", "10.0.0.0/8", "lists and tables are JSON"),
        ("EGRESS__ALLOW", '["10.0.0.0/99"]', "is not a CIDR network, host or *.host"),
        ("EGRESS__FOLLOW", '["example.com"]', "write scheme://host"),
        ("DATABASE__URL", "oracle://localhost/x", "sqlite:///PATH, or postgresql:// or mysql://"),
        ("STORE__URL", "redis://localhost", "punctual jobs apply -f FILE"),
        ("STORE__URL", "sqlite:///x", "or leave it out"),
        ("CONTEXTS__URL", "redis:/localhost", "write redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]"),
        ("CONTEXTS__URL", "sqlite", "write redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]"),
        ("DATABASE__URL", "sqlite:////data/a?b.db", "%3F"),
        ("DATABASE__URL", "sqlite:///:memory:", "sqlite://"),
        ("SERVER__EXTERNAL_URL", "example.com", "write http(s)://host"),
        ("SERVICES__STATIC", '{"a": []}', "services.static.a"),
        ("SERVICES__STATIC", '{"a b": "http://x:1"}', "services.static.a b"),
        ("ENV__a b__A", "1", "env.a b"),
        ("ENV__default__1A", "1", "env.default.1A"),
        ("NODE__ID", "-", "node.id"),
    ],
)
def test_a_wrong_value_is_refused_with_its_name_and_source(name: str, value: str, said: str) -> None:
    """The message names the setting, the value, and where it came from (16)."""
    message = refusal({f"PUNCTUAL_{name}": value})
    assert said in message
    assert "(environment)" in message


def test_switches_and_numbers_are_not_mixed_up(tmp_path: Path) -> None:
    """`true` is no number and `1` of the environment is one (16)."""
    assert "history.retain_count = True" in refusal({}, write(tmp_path, "[history]\nretain_count = true\n"))
    loaded = load_settings({}, {"PUNCTUAL_DEFAULTS__QOS": "1", "PUNCTUAL_SERVER__WORKERS": "1"})
    assert loaded.settings.defaults.qos == 1
    assert load_settings({}, {"PUNCTUAL_DEBUG__HOLD_RECURRING": "true"}).settings.debug.hold_recurring


def test_the_key_is_not_shown() -> None:
    """Neither as an effective value nor in a refusal (14)."""
    key = "a-very-long-secret-key"
    assert shown(load_settings({}, {"PUNCTUAL_SERVER__KEY": key}))["server.key"] == ("***", "environment")
    assert "short" not in refusal({"PUNCTUAL_SERVER__KEY": "short"})
    # What is in force can be seen by everybody who may read the settings
    loaded = load_settings({"contexts.url": "redis://user:secret@h:1/2"}, {})
    assert shown(loaded)["contexts.url"] == ("redis://***@h:1/2", "command line")
    assert loaded.settings.contexts.url == "redis://user:secret@h:1/2"


def test_tokens_come_from_the_variables_of_dapr() -> None:
    """Those with the prefix take precedence; an empty one is none; neither is ever shown (14, 16)."""
    both = {"DAPR_API_TOKEN": "of-daprd", "APP_API_TOKEN": "a-token-of-the-application"}
    loaded = load_settings({}, both)
    assert (loaded.settings.dapr.api_token, loaded.settings.dapr.app_token) == tuple(both.values())
    assert shown(loaded)["dapr.api_token"] == ("***", "environment DAPR_API_TOKEN")
    assert shown(loaded)["dapr.app_token"] == ("***", "environment APP_API_TOKEN")
    own = load_settings({}, both | {"PUNCTUAL_DAPR__API_TOKEN": "own"})
    assert own.settings.dapr.api_token == "own"
    assert load_settings({}, dict.fromkeys(both, "")).settings.dapr.api_token is None


@each_row("wrong", ["with a space", "line\n", "\u00e4"])
def test_a_token_that_no_header_carries_is_refused(wrong: str) -> None:
    """By the name of its variable, and without its value."""
    message = refusal({"DAPR_API_TOKEN": wrong})
    assert "dapr.api_token = (hidden) (environment DAPR_API_TOKEN)" in message
    assert wrong not in message


ADDRESSES = (
    "STORE__URL", "STORE", "CONTEXTS__URL", "DATABASE__URL", "SERVER__EXTERNAL_URL", "SERVICES__GATEWAY",
    "FEEDBACK__INTERNAL_URL", "TRACES__ENDPOINT", "EGRESS__FOLLOW", "EGRESS__ALLOW", "SERVICES__STATIC",
    "SERVER__TRUSTED_PROXIES", "ALERTS",
)  # fmt: skip


@each_row("name", ADDRESSES)
@each_row(
    "url",
    [
        "redis://u:p/ss@h:x/1", "redis://:p@ss@h/?a=p@ss", "postgres://u:p/ss@h/d", "u:p?ss@h", "r:/u:ss@h",
        "x://h/?ss@=1", "r://h#ss@",
    ],
)  # fmt: skip
def test_passwords_of_addresses_are_not_shown(name: str, url: str) -> None:
    """A wrong address is refused without them, and without its query, in the whole line (14)."""
    form = {"SERVICES__STATIC": {"a": url}, "ALERTS": [{"on": [], "url": url}]}
    lists = {"EGRESS__FOLLOW", "EGRESS__ALLOW", "SERVER__TRUSTED_PROXIES"}
    text = json.dumps(form.get(name, [url])) if name in lists | form.keys() else url
    assert "ss@" not in refusal({f"PUNCTUAL_{name}": text})
    assert "ss@" not in refusal({f"PUNCTUAL_{name}": f"[{json.dumps(url)},]"})


def test_logins_and_queries_of_addresses_in_force_are_not_shown() -> None:
    """They are used as given (14)."""
    url = "http://user:pass@h:4318/v1/traces?api-key=pass"
    loaded = load_settings({"traces.endpoint": url, "env.default.PLACE": url}, given(url=url))
    assert loaded.settings.traces.endpoint == loaded.settings.alerts[0].url == url
    described = loaded.describe()
    assert "pass" not in str(described)
    for name in ("traces.endpoint", "env.default.PLACE"):
        assert shown(loaded)[name][0] == "http://***@h:4318/v1/traces?***"


PLAIN = "a-text-that-signs-nothing"


@each_row(
    ("name", "text", "said"),
    [
        ("SIGNING__SECRETS", {"default": {"hooks": PLAIN}}, "signing.secrets.default.hooks = (hidden)"),
        (
            "SIGNING__SECRETS",
            {"default": {"hooks": [NEW, NEW, NEW]}},
            "signing.secrets.default.hooks = (hidden)",
        ),
        ("SIGNING__SECRETS", {"default": {"ho oks": NEW}}, "signing.secrets.default.ho oks = (hidden)"),
        ("SIGNING__SECRETS", PLAIN, "signing.secrets = (hidden)"),
        ("SIGNING", {"md5_secret": PLAIN, "md5_enabled": 7}, "signing.md5_enabled = 7"),
        ("SIGNING__MD5_ENABLED", True, "md5_enabled needs md5_secret"),
    ],
)
def test_secrets_that_sign_are_never_shown(name: str, text: object, said: str) -> None:
    """Neither where they are refused nor where they are in force (14)."""
    message = refusal({f"PUNCTUAL_{name}": text if isinstance(text, str) else json.dumps(text)})
    assert said in message
    assert (NEW in message, PLAIN in message) == (False, False)
    given = json.dumps({"default": {"hooks": [NEW, OLD]}, "team": {"hooks": NEW}})
    signing = {"PUNCTUAL_SIGNING__SECRETS": given, "PUNCTUAL_SIGNING__MD5_SECRET": PLAIN}
    loaded = load_settings({}, signing | {"PUNCTUAL_SIGNING__MD5_ENABLED": "true"})
    assert loaded.settings.signing.secrets["team"] == {"hooks": (NEW,)}
    found = {key: value for key, (value, _) in shown(loaded).items() if key.startswith("signing.")}
    assert found == {
        "signing.secrets.default.hooks": "***", "signing.secrets.team.hooks": "***",
        "signing.md5_secret": "***", "signing.md5_enabled": True,
    }  # fmt: skip


def given(**members: Any) -> dict[str, str]:
    """The environment that sets one alert."""
    alert = {"name": "ops", "on": ["failing"], "url": "https://chat.test/", **members}
    return {"PUNCTUAL_ALERTS": json.dumps([alert])}


def test_each_format_has_a_receiver() -> None:
    """But `json`, whose body is the message."""
    assert set(get_args(Format)) == {"json", *RECEIVERS}


@each_row(
    ("members", "said"),
    [
        ({"format": "mattermost"}, "alerts.0.format = 'mattermost'"),
        ({"format": "slack", "secret": "s3cret"}, "alerts.0.secret = (hidden)"),
        ({"secret": "s3cret"}, "dingtalk, feishu are"),
        ({"format": "feishu", "secret": ""}, "alerts.0.secret = (hidden)"),
        ({"format": "feishu", "secret": "x${secrets.A}s3cret"}, "alerts.0.secret = (hidden)"),
        ({"format": "dingtalk", "secret": "${SECRET}s3cret"}, "${secrets.NAME} and nothing else"),
    ],
)
def test_what_a_chat_cannot_have_is_refused_by_name(members: dict[str, Any], said: str) -> None:
    """At the start; a secret is not shown."""
    text = refusal(given(**members))
    assert said in text
    assert "s3cret" not in text


@each_row(
    ("secret", "shown", "name"),
    [("SECab12", "***", None), ("${secrets.DING}", "${secrets.DING}", "DING"), (None, None, None)],
)
def test_a_secret_is_shown_by_its_name_alone(secret: str | None, shown: str | None, name: str | None) -> None:
    """Another process of the service has it whole."""
    (alert,) = load_settings({}, given(format="dingtalk", secret=secret)).settings.alerts
    assert alert.secret_name == name
    assert alert.model_dump()["secret"] == shown
    assert Alert.model_validate(alert.model_dump(context=WHOLE)).secret == secret
