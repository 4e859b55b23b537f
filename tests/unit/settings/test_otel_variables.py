"""The standard variables `OTEL_*` are settings of `traces`; what cannot be honoured is refused by name."""

import pytest

from scheduler_service.settings import SettingsError, load_settings
from scheduler_service.settings.model import Traces
from tests.rows import each_row

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318/"}


def traces(**environ: str) -> Traces:
    """The settings that an environment gives."""
    return load_settings({}, environ).settings.traces


def test_without_an_endpoint_nothing_is_exported() -> None:
    """Variables of OpenTelemetry that others need switch nothing on."""
    assert not traces().is_on
    assert not traces(OTEL_SERVICE_NAME="shop", OTEL_EXPORTER_OTLP_PROTOCOL="grpc").is_on
    # The general one is a base, the one for traces a whole address
    assert traces(**ENDPOINT).endpoint == "http://collector:4318/v1/traces"
    assert traces(**ENDPOINT).is_on
    own = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://own/path"}
    assert traces(**ENDPOINT, **own).endpoint == "https://own/path"
    assert traces(OTEL_TRACES_EXPORTER="otlp").is_on


@each_row("off", [{"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}])
def test_what_switches_it_off(off: dict[str, str]) -> None:
    """In spite of an endpoint."""
    assert not traces(**ENDPOINT, **off).is_on


def test_all_variables() -> None:
    """Times are in milliseconds there; values of pairs are percent-encoded."""
    found = traces(
        **ENDPOINT,
        OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20secret,x-team=a",
        OTEL_EXPORTER_OTLP_TIMEOUT="9000",
        OTEL_EXPORTER_OTLP_TRACES_TIMEOUT="2500",
        OTEL_EXPORTER_OTLP_COMPRESSION="gzip",
        OTEL_EXPORTER_OTLP_CERTIFICATE="ca.pem",
        OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE="client.pem",
        OTEL_EXPORTER_OTLP_CLIENT_KEY="client.key",
        OTEL_TRACES_SAMPLER="traceidratio",
        OTEL_TRACES_SAMPLER_ARG="0.25",
        OTEL_RESOURCE_ATTRIBUTES="service.name=ignored,deployment.environment.name=prod",
        OTEL_SERVICE_NAME="jobs",
        OTEL_BSP_MAX_QUEUE_SIZE="100",
        OTEL_BSP_MAX_EXPORT_BATCH_SIZE="10",
        OTEL_BSP_SCHEDULE_DELAY="200",
        OTEL_METRICS_EXPORTER="prometheus",
    )
    assert found == Traces(
        endpoint="http://collector:4318/v1/traces",
        headers={"authorization": "Bearer secret", "x-team": "a"},
        timeout_seconds=2.5,
        compression="gzip",
        certificate="ca.pem",
        client_certificate="client.pem",
        client_key="client.key",
        sampler="traceidratio",
        sampler_ratio=0.25,
        service_name="jobs",
        resource={"deployment.environment.name": "prod"},
        queue_size=100,
        batch_size=10,
        delay_seconds=0.2,
    )


def test_a_setting_of_ours_takes_precedence() -> None:
    """Each says where it is from."""
    loaded = load_settings({}, {**ENDPOINT, "PUNCTUAL_TRACES__ENDPOINT": "http://other/v1/traces"})
    assert loaded.settings.traces.endpoint == "http://other/v1/traces"
    assert loaded.sources["traces.endpoint"] == "environment"
    assert load_settings({}, ENDPOINT).sources["traces.endpoint"] == "environment OTEL_*"


@each_row(
    ("environ", "words"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER = 'zipkin'"),
        (
            {**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf",
        ),
        ({**ENDPOINT, "OTEL_EXPORTER_OTLP_TIMEOUT": "10s"}, "OTEL_EXPORTER_OTLP_TIMEOUT = '10s'"),
        (
            {**ENDPOINT, "OTEL_TRACES_SAMPLER": "jaeger_remote"},
            "= 'jaeger_remote' (environment OTEL_TRACES_SAMPLER)",
        ),
        ({**ENDPOINT, "OTEL_TRACES_SAMPLER_ARG": "7"}, "(environment OTEL_TRACES_SAMPLER_ARG)"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"}, "ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT)"),
        ({**ENDPOINT, "OTEL_RESOURCE_ATTRIBUTES": "prod"}, "'prod' is not key=value"),
    ],
)
def test_what_is_refused(environ: dict[str, str], words: str) -> None:
    """The message names the variable that was set, and its value."""
    with pytest.raises(SettingsError) as caught:
        load_settings({}, environ)
    assert words in str(caught.value)


def test_headers_are_secret() -> None:
    """The list of settings does not have their values."""
    loaded = load_settings({}, {**ENDPOINT, "OTEL_EXPORTER_OTLP_HEADERS": "authorization=hush-1"})
    shown = {name: value for name, value, _ in loaded.effective()}
    assert "hush" not in str(shown)
    assert shown["traces.headers.authorization"] == "***"


@each_row("headers", ["hush-1", "two words=hush-1"])
def test_no_message_has_a_header(headers: str) -> None:
    """One that is refused may be a secret as well."""
    with pytest.raises(SettingsError) as caught:
        load_settings({}, {**ENDPOINT, "OTEL_EXPORTER_OTLP_HEADERS": headers})
    assert "hush" not in str(caught.value)
