"""The alerts of the settings: for which happenings of which jobs whom to tell (SPEC section 14)."""

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializationInfo,
    ValidationInfo,
    field_serializer,
    field_validator,
)
from pydantic.alias_generators import to_camel

from scheduler_service.domain.secret_places import SECRET_NAME
from scheduler_service.security.name_masks import hide_login
from scheduler_service.telemetry.alerts.alert_receivers import RECEIVERS

MOST_ALERTS = 100
MOST_SECONDS = 1_000_000_000
WHOLE = "whole"
"""The context of a serialization for another process of the service: with secrets."""

NAMED_SECRET = re.compile(rf"\$\{{secrets\.({SECRET_NAME.pattern})\}}")
LABEL = re.compile(r"[^:]+:.*", re.DOTALL)
Kind = Literal[
    "finalFailed",
    "failing",
    "overdue",
    "jobPaused",
    "undeliverable",
    "instanceLost",
    "workerLost",
    "nodeLost",
    "storeLost",
    "limitReached",
]
"""What an alert may be for."""


Format = Literal["json", "slack", "teams", "dingtalk", "wecom", "feishu"]
"""Who receives it: whose body, signature and answers it has."""


def _read_several(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _check_label(label: str) -> str:
    if LABEL.fullmatch(label) is None:
        raise ValueError("it is not a label; write NAME:VALUE")
    return label


class Alert(BaseModel):
    """One alert. Names are camelCase, as in definitions of jobs; those of settings are taken as well."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, alias_generator=to_camel, populate_by_name=True
    )

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")] = ""
    on: Annotated[tuple[Kind, ...], BeforeValidator(_read_several), Field(min_length=1)]
    url: Annotated[str, Field(min_length=1)]
    method: str = "POST"
    headers: dict[str, str] = {}
    body: Any = None
    label: Annotated[
        tuple[Annotated[str, AfterValidator(_check_label)], ...], BeforeValidator(_read_several)
    ] = ()
    job_id: str | None = None
    format: Format = "json"
    secret: Annotated[str, Field(min_length=1)] | None = None
    sign: Annotated[str, Field(min_length=1)] | None = None
    success_when: Annotated[str, Field(min_length=1)] | None = None
    error_from: Annotated[str, Field(min_length=1)] | None = None
    message_from: Annotated[str, Field(min_length=1)] | None = None
    min_interval_seconds: Annotated[float, Field(ge=0, le=MOST_SECONDS)] = 60
    overdue_seconds: Annotated[float, Field(ge=1, le=MOST_SECONDS)] = 60
    failing_count: Annotated[int, Field(ge=1, le=100)] = 3

    @field_validator("min_interval_seconds", "overdue_seconds", "failing_count", mode="before")
    @classmethod
    def _refuse_switch(cls, value: object) -> object:
        if isinstance(value, bool):
            raise ValueError("true and false are for switches only")  # noqa: TRY004 - pydantic reports it
        return value

    @field_validator("secret")
    @classmethod
    def _check_secret(cls, secret: str | None, info: ValidationInfo) -> str | None:
        if secret is None or "format" not in info.data:
            return secret
        receiver = RECEIVERS.get(info.data["format"])
        if receiver is None or receiver.sign is None:
            signed = ", ".join(name for name, one in RECEIVERS.items() if one.sign)
            raise ValueError(f"the format {info.data['format']!r} is not signed with a secret; {signed} are")
        if "${" in secret and NAMED_SECRET.fullmatch(secret) is None:
            raise ValueError("write the secret itself, or ${secrets.NAME} and nothing else")
        return secret

    @field_serializer("secret")
    def _hide_secret(self, secret: str | None, info: SerializationInfo) -> str | None:
        is_shown = secret is None or info.context == WHOLE or NAMED_SECRET.fullmatch(secret)
        return secret if is_shown else "***"

    @field_serializer("headers")
    def _hide_headers(self, headers: dict[str, str], info: SerializationInfo) -> dict[str, str]:
        """Shown without values, which may be secrets."""
        return headers if info.context == WHOLE else dict.fromkeys(headers, "***")

    @field_serializer("url")
    def _hide_login(self, url: str, info: SerializationInfo) -> str:
        return url if info.context == WHOLE else hide_login(url)

    @property
    def secret_name(self) -> str | None:
        """The name in `secret`; None: `secret` is the value itself, or there is none."""
        named = NAMED_SECRET.fullmatch(self.secret or "")
        return None if named is None else named[1]

    @property
    def has_body(self) -> bool:
        """Whether a body of its own is given, be it null."""
        return "body" in self.model_fields_set


def name_all(alerts: tuple[Alert, ...]) -> tuple[Alert, ...]:
    """Gives each alert a name; raises ValueError where two have the same."""
    named = tuple(
        alert if alert.name else alert.model_copy(update={"name": f"alert-{number}"})
        for number, alert in enumerate(alerts, 1)
    )
    seen: set[str] = set()
    for alert in named:
        if alert.name in seen:
            raise ValueError(f"the name {alert.name!r} is given twice; each alert has a name of its own")
        seen.add(alert.name)
    return named


Alerts = Annotated[tuple[Alert, ...], Field(max_length=MOST_ALERTS), AfterValidator(name_all)]
