"""The settings by group, with their defaults (SPEC section 16); attribute names are the setting names."""

import ipaddress
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)

from client_sdk.models import JOB_ID_FORM, JobDefinition, RetryPolicy
from client_sdk.models.definition import MAX_ENTRIES
from client_sdk.signing import read_secret
from scheduler_service.domain.errors import ExpressionError
from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.domain.secret_places import SECRET_NAME
from scheduler_service.language.urls import explain_service_name
from scheduler_service.persistence.contexts.redis_address import read_address
from scheduler_service.security.secret_vault import read_seal_key
from scheduler_service.security.secrets import TENANT_NAME, read_values
from scheduler_service.settings.alert_settings import Alerts
from scheduler_service.timing.zones import load_zone

HOST = re.compile(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?")
SPOKEN_FOR = frozenset({"authorization", "cookie", "host", "origin", "x-forwarded-for", "x-forwarded-host"})
"""Headers that say something else than who a user is."""
ORIGIN = re.compile(r"https?://[^/?#\s@]+")


# What refuses a value does not repeat it: it may have a secret, and `sources` shows what may be shown.
def _check_zone(name: str) -> str:
    try:
        return load_zone(name).name
    except ExpressionError as error:
        raise ValueError(error.message) from error


def _check_service(name: str) -> str:
    """As a registration is checked."""
    if reason := explain_service_name(name):
        raise ValueError(reason)
    return name


def _check_pattern(pattern: str) -> str:
    """An address, a network in CIDR form, a host, or `*.host`."""
    try:
        ipaddress.ip_network(pattern, strict=False)
    except ValueError:
        if not HOST.fullmatch(pattern) or pattern.replace(".", "").isdigit():
            raise ValueError("it is not a CIDR network, host or *.host") from None
    return pattern


def _check_network(network: str) -> str:
    try:
        ipaddress.ip_network(network, strict=False)
    except ValueError:
        raise ValueError("it is neither an address nor a CIDR network") from None
    return network


def _check_origin(origin: str) -> str:
    if not ORIGIN.fullmatch(origin):
        raise ValueError("it is not an origin; write scheme://host or scheme://host:port")
    return origin.lower()


def _check_base(url: str) -> str:
    if not re.fullmatch(r"https?://[^?#\s@]+", url):
        raise ValueError("it is not a base address; write http(s)://host[:port][/path]")
    return url.rstrip("/")


def _read_whole(value: object) -> object:
    """Digits from the environment as a number: pydantic does not convert them for a choice of numbers."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value


def _check_store(url: str) -> str:
    if not url.startswith(("redis:", "rediss:")):
        if not url.startswith(("postgresql:", "mysql:", "mariadb:")):
            raise ValueError(
                "write postgresql:// or mysql://USER:PASSWORD@HOST/NAME, or leave it out: then the jobs' "
                "state lies in the folder store.data (--data)"
            )
        return _check_database(url)
    raise ValueError(
        "the jobs' state does not lie in Redis any more. With the version that wrote it save the definitions "
        "('punctual jobs list'; of what 'punctual jobs get ID -o json' prints the member definition), pause "
        "the jobs with drain=true and stop it; then start this one without store.url, with --new-state, and "
        "'punctual jobs apply -f FILE' (docs/operations.md). Contexts of qos 1 may lie in Redis: contexts.url"
    )


def _check_contexts(url: str) -> str:
    if url not in ("sql", "dapr"):
        try:
            read_address(url)
        except ValueError as error:
            raise ValueError(f'{error}; or "sql": in the rows of the jobs') from None
    return url


_SERVERS = ("postgresql://", "mysql://", "mariadb://")


def _check_database(url: str) -> str:
    if url != "sqlite://" and not url.startswith(("sqlite:///", *_SERVERS)):
        raise ValueError(
            "write sqlite:///PATH, or postgresql:// or mysql://USER:PASSWORD@HOST:PORT/NAME, or nothing"
        )
    if url.startswith("sqlite:///"):
        _check_file(url.removeprefix("sqlite:///"))
    return url


def _check_file(path: str) -> None:
    if "?" in path:
        raise ValueError("a file has no options; write a '?' in its path as %3F")
    if path in ("", ":memory:"):
        raise ValueError("write sqlite:///PATH for a file, or sqlite:// for a history in memory")


def _check_policy(policy: RetryPolicy) -> RetryPolicy:
    if not policy.errors or "" in policy.errors:
        raise ValueError('errorEquals names no error; write a code such as "500", a list of codes, or "*"')
    return policy


def _check_seal_key(text: str) -> str:
    read_seal_key(text)
    return text


def _check_tenant(name: str) -> str:
    if name.casefold() == DEFAULT_TENANT != name:
        raise ValueError(f"{name!r} differs from {DEFAULT_TENANT!r} by case alone; write it as that one")
    return name


def _read_bases(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _check_signing(secrets: tuple[str, ...]) -> tuple[str, ...]:
    for secret in secrets:
        read_secret(secret)
    return secrets


Zone = Annotated[str, AfterValidator(_check_zone)]
Network = Annotated[str, AfterValidator(_check_network)]
Pattern = Annotated[str, AfterValidator(_check_pattern)]
Origin = Annotated[str, AfterValidator(_check_origin)]
Base = Annotated[str, AfterValidator(_check_base)]
Bit = Annotated[Literal[0, 1], BeforeValidator(_read_whole)]
Bases = Annotated[tuple[Base, ...], BeforeValidator(_read_bases), Field(min_length=1, max_length=100)]

Policies = Annotated[
    tuple[Annotated[RetryPolicy, AfterValidator(_check_policy)], ...], Field(max_length=MAX_ENTRIES)
]

ServiceName = Annotated[str, AfterValidator(_check_service)]
JobId = Annotated[str, Field(pattern=rf"^{JOB_ID_FORM.pattern}$")]
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]

SecretName = Annotated[str, Field(pattern=rf"^{SECRET_NAME.pattern}$")]
TenantName = Annotated[str, Field(pattern=rf"^{TENANT_NAME.pattern}$"), AfterValidator(_check_tenant)]
SealKeys = Annotated[
    tuple[Annotated[str, AfterValidator(_check_seal_key)], ...],
    BeforeValidator(_read_bases),
    Field(max_length=2),
]
SecretValues = Annotated[tuple[str, ...], BeforeValidator(read_values)]
SigningSecrets = Annotated[SecretValues, AfterValidator(_check_signing)]

Positive = Annotated[float, Field(gt=0, le=1_000_000_000)]
Seconds = Annotated[float, Field(ge=0, le=1_000_000_000)]
Count = Annotated[int, Field(ge=0, le=1_000_000_000)]
PositiveCount = Annotated[int, Field(ge=1, le=1_000_000_000)]


IN_FILE = "file"
"""The context of a validation of what a TOML file says, which has numbers and switches of its own."""


def _refuse_texts(value: object, kind: Any) -> None:
    """Raises ValueError for a text in a file where a number or a switch belongs; in the variables of an
    environment all are texts.
    """
    kinds = [*_kinds_in(kind)]
    if isinstance(value, dict):
        for one in value.values():
            _refuse_texts(one, get_args(kind)[1] if len(get_args(kind)) == 2 else None)
    elif isinstance(value, str) and str not in kinds and any(one in kinds for one in (bool, int, float)):
        said = "true or false" if bool in kinds else "the number"
        raise ValueError(f"it is a text; in a file write {said} without quotes")


def _kinds_in(kind: Any) -> Iterator[Any]:
    yield kind
    for one in get_args(kind):
        yield from _kinds_in(one)


class Group(BaseModel):
    """The base class of all groups: frozen; unknown names are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_switch(cls, value: object, info: ValidationInfo) -> object:
        kind = cls.model_fields[str(info.field_name)].annotation
        if isinstance(value, bool) and kind is not bool:
            raise ValueError("true and false are for switches only")
        if info.context is IN_FILE:
            _refuse_texts(value, kind)
        return value


class ServerSettings(Group):
    """Where the service listens, the key of its callers, and the proxies that are believed.

    `trusted_user_header`: in which these say who has signed in there, with `external_url` alone.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    external_url: Base | None = None
    workers: Annotated[int, Field(ge=1, le=32)] = 1
    key: Annotated[str, Field(min_length=16)] | None = None
    drain_seconds: Seconds = 20
    trusted_proxies: tuple[Network, ...] = ()
    trusted_user_header: Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")] | None = None
    trusted_user_role: Literal["viewer", "operator", "editor", "admin"] = "viewer"
    trusted_user_tenant: TenantName = DEFAULT_TENANT

    @field_validator("trusted_user_header")
    @classmethod
    def _check_user_header(cls, name: str | None, info: ValidationInfo) -> str | None:
        if name is None:
            return None
        if name.lower() in SPOKEN_FOR:
            raise ValueError(f"{name} is not a header for the name of a user")
        if not info.data.get("trusted_proxies") or not info.data.get("external_url"):
            raise ValueError("set server.trusted_proxies and server.external_url, too")
        return name


class StoreSettings(Group):
    """Where the jobs' state lies: in the folder `data`, or in the database of a server at `url`.

    `durability` is that of files.
    """

    url: Annotated[str, AfterValidator(_check_store)] | None = None
    data: Annotated[str, Field(min_length=1)] = "data"
    durability: Literal["full", "process"] = "full"


class ContextsSettings(Group):
    """Where the contexts of qos 1 are stored.

    None or `sql`: in the row of their job; an address: in a Redis database of their own; `dapr`: in the actor
    state store, with the runtime dapr alone.
    """

    url: Annotated[str, AfterValidator(_check_contexts)] | None = None


class DatabaseSettings(Group):
    """Where the history is stored; None: where the jobs' state is."""

    url: Annotated[str, AfterValidator(_check_database)] | None = None


def _as_defined(option: str) -> Any:
    """The default that the model of a definition has."""
    return JobDefinition.model_fields[option].default


class OptionSettings(Group):
    """The options of a job that are given for many (SPEC section 13). `retry` is as in a definition."""

    check_rate_seconds: Annotated[float, Field(ge=0.1)] = _as_defined("check_rate_seconds")
    timeout_seconds: Positive = _as_defined("timeout_seconds")
    max_retries: Count = _as_defined("max_retries")
    qos: Bit = _as_defined("qos")
    max_concurrency: PositiveCount = _as_defined("max_concurrency")
    overlap_policy: Literal["skip", "queue", "cancel_running", "allow"] = _as_defined("overlap_policy")
    queue_limit: Count = _as_defined("queue_limit")
    lead_seconds: Annotated[float, Field(ge=0, le=3_600)] = 0
    start_policy: Literal["auto", "manual"] = _as_defined("start_policy")
    retry: Policies = ()

    @field_serializer("retry")
    def _write_policies(self, policies: Policies) -> list[dict[str, object]]:
        """As they were given."""
        return [policy.model_dump(mode="json", by_alias=True, exclude_unset=True) for policy in policies]


class DefaultsSettings(OptionSettings):
    """The platform's defaults of a definition (SPEC section 2).

    `on_change` is that of a service whose registration does not say.
    """

    timezone: Zone = "UTC"
    http_timeout_seconds: Positive = 60
    on_change: Literal["update", "keep"] = "update"


class OfTenant(Group):
    """A group of one tenant: what is not given is the platform's, and is not shown."""

    @model_serializer(mode="wrap")
    def _write_given(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        return {name: value for name, value in write(self).items() if name in self.model_fields_set}


class TenantDefaults(OfTenant, OptionSettings):
    """Defaults of one tenant: what is given here takes precedence over the platform's."""

    history_detail: Literal["all", "failures", "none"] = "all"


class TenantLimits(OfTenant):
    """The limits of one tenant: what is given takes precedence over `limits.tenant_*`; 0: no limit."""

    jobs: Count | None = None
    executions_per_minute: Count | None = None
    waiting: Count | None = None
    history_executions: Count | None = None


class TenantSettings(OfTenant):
    """What is one tenant's own."""

    defaults: TenantDefaults = TenantDefaults()
    limits: TenantLimits = TenantLimits()


class CertificateSettings(Group):
    """The files of the certificate that is shown to one origin, of its key, and of who is trusted there."""

    origin: Annotated[str, Field(pattern=r"^https://")]
    cert: Annotated[str, Field(min_length=1)]
    key: Annotated[str, Field(min_length=1)]
    ca: Annotated[str, Field(min_length=1)] | None = None


class EgressSettings(Group):
    """Which addresses `http(s)` targets may have (SPEC section 9); `deny` wins."""

    allow: tuple[Pattern, ...] = ()
    deny: tuple[Pattern, ...] = ()
    follow: tuple[Origin, ...] = ()
    client_certificates: tuple[CertificateSettings, ...] = ()


class FeedbackSettings(Group):
    """Bases of feedback URLs; None: the served address."""

    internal_url: Base | None = None
    external_url: Base | None = None


class LimitsSettings(Group):
    """Limits on input from outside; those of each tenant (`tenants.<tenant>.limits` has its own): 0: none."""

    response_bytes: PositiveCount = 1 << 20
    body_bytes: PositiveCount = 1 << 20
    feedback_bytes: PositiveCount = 1 << 16
    connections: PositiveCount | None = None
    head_seconds: Positive = 10
    open_bytes: PositiveCount = 80 << 20
    ready: PositiveCount = 100_000
    pending_triggers: PositiveCount = 1_000
    event_readers: PositiveCount = 200
    tenant_jobs: Count = 0
    tenant_executions_per_minute: Count = 0
    tenant_waiting: Count = 0
    tenant_history_executions: Count = 0


class HistorySettings(Group):
    """What is kept of executions, and for how long (SPEC section 12)."""

    retain_days: Positive = 5
    retain_days_by_outcome: dict[Literal["succeeded", "failed", "cancelled", "skipped"], Positive] = {}
    retain_count: Count = 10
    body_bytes: Count = 4 * 1024
    detail: Literal["all", "failures", "none"] = "all"
    max_bytes: PositiveCount | None = None
    mask: tuple[str, ...] = ()
    clean_seconds: Positive = 3600
    statistics_days: Annotated[int, Field(ge=1, le=100_000)] = 400


class AuditSettings(Group):
    """For how long the audit is kept."""

    retain_days: Positive = 365


class NotificationSettings(Group):
    """Delivery of notifications (SPEC section 7)."""

    retries: Count = 3
    interval_seconds: Seconds = 20
    outbox_seconds: Positive = 60


class ServicesSettings(Group):
    """Services without registration (name to base addresses), the gateway, and heartbeats."""

    static: dict[ServiceName, Bases] = {}
    gateway: Base | None = None
    check_timers_seconds: Positive = 120
    heartbeat_seconds: Positive = 3
    offline_seconds: Positive = 10
    lost_after_seconds: Seconds | None = None
    wait_seconds: Seconds = 30
    declared_bytes: PositiveCount = 16 << 20

    @model_validator(mode="after")
    def _check_heartbeats(self) -> Self:
        if self.heartbeat_seconds >= self.offline_seconds:
            text = f"heartbeat_seconds is not below offline_seconds ({self.offline_seconds:g})"
            raise ValueError(f"{text}: instances would be offline between two heartbeats; lengthen that")
        return self


class LogSettings(Group):
    """What the log has, and in which form; `format` None: text on a terminal, else JSON.

    `access`: a line for each request of a caller."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "text"] | None = None
    access: bool = False


class Traces(Group):
    """Export of traces by OTLP over HTTP; the variables `OTEL_*` are the same settings (`otel_variables`).

    `exporter` None: `otlp` where an `endpoint` is given, which is the whole address for traces. At most
    `queue_size` spans wait; they are sent `batch_size` at a time, after `delay_seconds` at the latest.
    """

    exporter: Literal["otlp", "none"] | None = None
    endpoint: Annotated[str, Field(pattern=r"^https?://[^\s]+$")] | None = None
    headers: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")], str] = {}
    timeout_seconds: Positive = 10
    compression: Literal["none", "gzip"] = "none"
    certificate: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None
    sampler: Literal[
        "always_on",
        "always_off",
        "traceidratio",
        "parentbased_always_on",
        "parentbased_always_off",
        "parentbased_traceidratio",
    ] = "parentbased_always_on"
    sampler_ratio: Annotated[float, Field(ge=0, le=1)] = 1
    service_name: Annotated[str, Field(min_length=1)] = "punctual"
    resource: dict[str, str] = {}
    queue_size: PositiveCount = 20_000
    batch_size: PositiveCount = 512
    delay_seconds: Positive = 1

    @property
    def is_on(self) -> bool:
        """Whether spans are exported."""
        return self.exporter == "otlp" or (self.exporter is None and self.endpoint is not None)


class MetricsSettings(Group):
    """`GET /metrics`, and the jobs that have figures of their own."""

    enabled: bool = True
    jobs: Annotated[tuple[JobId, ...], Field(max_length=100)] = ()


class SigningSettings(Group):
    """Secrets that sign requests and nothing else, by tenant: no template can name them.

    `md5_enabled`: `sign = "md5"` means the scheme of old peers, with `md5_secret`.
    """

    secrets: dict[TenantName, dict[SecretName, SigningSecrets]] = {}
    md5_secret: Annotated[str, Field(min_length=1)] | None = None
    md5_enabled: bool = False

    @model_validator(mode="after")
    def _check_md5(self) -> Self:
        if self.md5_enabled and self.md5_secret is None:
            raise ValueError("md5_enabled needs md5_secret; give it, or leave md5_enabled out")
        return self


class DebugSettings(Group):
    """Switches that hold executions (SPEC section 13)."""

    hold_recurring: bool = False
    hold_triggered: bool = False


class NodeSettings(Group):
    """The name of this node in its cluster."""

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")] | None = None


HEADER_VALUE = r"^[!-~]+$"
"""What a header can carry."""


class DaprSettings(Group):
    """The ports of this node's daprd, and of the listener that only daprd calls.

    `app_token`: what daprd shows there, its own `APP_API_TOKEN`; None: all of this machine may call it.
    `api_token`: what daprd wants to be shown, its own `DAPR_API_TOKEN`; None: nothing.
    """

    app_port: Annotated[int, Field(ge=0, le=65535)] = 8001
    app_token: Annotated[str, Field(min_length=16, pattern=HEADER_VALUE)] | None = None
    api_token: Annotated[str, Field(pattern=HEADER_VALUE)] | None = None
    http_port: Annotated[int, Field(ge=1, le=65535)] = 3500
    grpc_port: Annotated[int, Field(ge=1, le=65535)] = 50001


class Settings(Group):
    """All settings of one process."""

    server: ServerSettings = ServerSettings()
    store: StoreSettings = StoreSettings()
    contexts: ContextsSettings = ContextsSettings()
    database: DatabaseSettings = DatabaseSettings()
    defaults: DefaultsSettings = DefaultsSettings()
    tenants: dict[TenantName, TenantSettings] = {}
    egress: EgressSettings | None = None
    feedback: FeedbackSettings = FeedbackSettings()
    limits: LimitsSettings = LimitsSettings()
    history: HistorySettings = HistorySettings()
    audit: AuditSettings = AuditSettings()
    notification: NotificationSettings = NotificationSettings()
    services: ServicesSettings = ServicesSettings()
    log: LogSettings = LogSettings()
    traces: Traces = Traces()
    metrics: MetricsSettings = MetricsSettings()
    debug: DebugSettings = DebugSettings()
    node: NodeSettings = NodeSettings()
    dapr: DaprSettings = DaprSettings()
    signing: SigningSettings = SigningSettings()
    alerts: Alerts = ()
    env: dict[TenantName, dict[VariableName, str]] = {}
    env_file: str | None = None
    secrets: dict[TenantName, dict[SecretName, SecretValues]] = {}
    secrets_dir: Annotated[str, Field(min_length=1)] | None = None
    secrets_key: SealKeys = ()
    secrets_key_file: Annotated[str, Field(min_length=1)] | None = None
