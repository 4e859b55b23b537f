"""The standard variables of OpenTelemetry (`OTEL_*`) as settings of the group `traces`."""

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from scheduler_service.domain.errors import PunctualError

Setting = tuple[tuple[str, ...], object]
SOURCE = "environment OTEL_*"
TRUE = "true"
HTTP = "http/protobuf"
PLAIN = {
    "OTEL_TRACES_SAMPLER": "sampler",
    "OTEL_TRACES_SAMPLER_ARG": "sampler_ratio",
    "OTEL_BSP_MAX_QUEUE_SIZE": "queue_size",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "batch_size",
}
OTLP = {
    "COMPRESSION": "compression",
    "CERTIFICATE": "certificate",
    "CLIENT_CERTIFICATE": "client_certificate",
}
FURTHER = {
    "client_key": "CLIENT_KEY",
    "endpoint": "ENDPOINT",
    "headers": "HEADERS",
    "timeout_seconds": "TIMEOUT",
}
OF_OTLP = ("OTEL_EXPORTER_OTLP_TRACES_{}", "OTEL_EXPORTER_OTLP_{}")
MILLISECONDS = {"OTEL_BSP_SCHEDULE_DELAY": "delay_seconds"}


class OtelError(PunctualError):
    """A variable `OTEL_*` that this service cannot honour: the message has its name, value and the remedy."""


def read_otel(environ: Mapping[str, str]) -> Iterator[Setting]:
    """The settings that the variables give. Raises OtelError.

    An empty variable is none; a variable for traces alone (`…_TRACES_…`) takes precedence. Variables that
    concern metrics, logs or other exporters are left to others.
    """
    known = {
        name: value.strip() for name, value in environ.items() if name.startswith("OTEL_") and value.strip()
    }
    if not known:
        return
    is_disabled = known.get("OTEL_SDK_DISABLED", "").lower() == TRUE
    exporter = "none" if is_disabled else _exporter(known)
    if exporter is not None:
        yield ("traces", "exporter"), exporter
    if exporter == "none":
        return
    if (
        exporter == "otlp"
        or "OTEL_EXPORTER_OTLP_ENDPOINT" in known
        or "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" in known
    ):
        _check_protocol(known)
        yield from _endpoint(known)
        yield from _transport(known)
    for name, member in PLAIN.items():
        if name in known:
            yield ("traces", member), known[name]
    for name, member in MILLISECONDS.items():
        if name in known:
            yield ("traces", member), _seconds(name, known[name])
    yield from _resource(known)


def variables_of(member: str) -> str:
    """The variables that may have given the setting `traces.MEMBER`, the one that takes precedence first."""
    named = [name for name, own in (PLAIN | MILLISECONDS).items() if own == member]
    suffixes = {own: suffix for suffix, own in OTLP.items()} | FURTHER
    if member in suffixes:
        named += [name.format(suffixes[member]) for name in OF_OTLP]
    return " or ".join(named) or "OTEL_*"


def _exporter(known: Mapping[str, str]) -> str | None:
    name = known.get("OTEL_TRACES_EXPORTER")
    if name is None or name in ("otlp", "none"):
        return name
    raise OtelError(f"OTEL_TRACES_EXPORTER = {name!r}: traces are exported by otlp alone; use otlp or none")


def _check_protocol(known: Mapping[str, str]) -> None:
    found = _otlp(known, "PROTOCOL")
    if found is not None and found[1] != HTTP:
        name, value = found
        raise OtelError(
            f"{name} = {value!r}: traces are exported by {HTTP}; set "
            f"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL={HTTP} and the port for HTTP (4318), "
            "or OTEL_TRACES_EXPORTER=none"
        )


def _endpoint(known: Mapping[str, str]) -> Iterator[Setting]:
    own = known.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    base = known.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    if own is not None:
        yield ("traces", "endpoint"), own
    elif base is not None:
        yield ("traces", "endpoint"), f"{base.rstrip('/')}/v1/traces"


def _transport(known: Mapping[str, str]) -> Iterator[Setting]:
    for suffix, member in OTLP.items():
        found = _otlp(known, suffix)
        if found is not None:
            yield ("traces", member), found[1]
    found = _otlp(known, "CLIENT_KEY")
    if found is not None:
        yield ("traces", "client_key"), found[1]
    found = _otlp(known, "TIMEOUT")
    if found is not None:
        yield ("traces", "timeout_seconds"), _seconds(*found)
    found = _otlp(known, "HEADERS")
    if found is not None:
        yield ("traces", "headers"), _pairs(*found, is_secret=True)


def _resource(known: Mapping[str, str]) -> Iterator[Setting]:
    name = "OTEL_RESOURCE_ATTRIBUTES"
    pairs = _pairs(name, known.get(name, ""))
    named = pairs.pop("service.name", None)
    service = known.get("OTEL_SERVICE_NAME", named)
    if service is not None:
        yield ("traces", "service_name"), service
    if pairs:
        yield ("traces", "resource"), pairs


def _otlp(known: Mapping[str, str], suffix: str) -> tuple[str, str] | None:
    for name in (pattern.format(suffix) for pattern in OF_OTLP):
        if name in known:
            return name, known[name]
    return None


def _seconds(name: str, text: str) -> float:
    try:
        return int(text) / 1000
    except ValueError:
        raise OtelError(f"{name} = {text!r} is not a number of milliseconds") from None


def _pairs(name: str, text: str, *, is_secret: bool = False) -> dict[str, str]:
    """`key=value,…`, values percent-encoded, as in W3C Baggage."""
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            shown = "one of its members" if is_secret else repr(part)
            raise OtelError(f"{name}: {shown} is not key=value; separate members by commas")
        found[key.strip()] = unquote(value.strip())
    return found
