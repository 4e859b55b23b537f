"""Alerts in the settings: what a chat's alert may have, and where its secret is shown (SPEC section 14)."""

import json
from typing import Any, get_args

from scheduler_service.settings import load_settings
from scheduler_service.settings.alert_settings import WHOLE, Alert, Format
from scheduler_service.telemetry.alerts.receivers import RECEIVERS
from tests.rows import each_row
from tests.unit.settings.loading import refusal


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
