"""The standard variables of OpenTelemetry (`OTEL_*`) as settings of the group `traces`."""

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from scheduler_service.domain.errors import PunctualError

Setting = tuple[tuple[str, ...], object]
SOURCE = "environment OTEL_*"
TRUE = "true"
HTTP = "http/protobuf"


def _of_otlp(name: str) -> tuple[str, str]:
    """The variable for traces alone, which takes precedence, and that for all that is exported."""
    return f"OTEL_EXPORTER_OTLP_TRACES_{name}", f"OTEL_EXPORTER_OTLP_{name}"


PROTOCOL, ENDPOINT = _of_otlp("PROTOCOL"), _of_otlp("ENDPOINT")
OTLP: dict[str, tuple[str, ...]] = {
    "compression": _of_otlp("COMPRESSION"),
    "certificate": _of_otlp("CERTIFICATE"),
    "client_certificate": _of_otlp("CLIENT_CERTIFICATE"),
    "client_key": _of_otlp("CLIENT_KEY"),
    "timeout_seconds": _of_otlp("TIMEOUT"),
    "headers": _of_otlp("HEADERS"),
}
PLAIN: dict[str, tuple[str, ...]] = {
    "sampler": ("OTEL_TRACES_SAMPLER",),
    "sampler_ratio": ("OTEL_TRACES_SAMPLER_ARG",),
    "queue_size": ("OTEL_BSP_MAX_QUEUE_SIZE",),
    "batch_size": ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE",),
    "delay_seconds": ("OTEL_BSP_SCHEDULE_DELAY",),
}
IN_MILLISECONDS = ("timeout_seconds", "delay_seconds")


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
    is_disabled = known.get("OTEL_SDK_DISABLED", "").lower() == TRUE
    exporter = "none" if is_disabled else _exporter(known)
    if exporter is not None:
        yield ("traces", "exporter"), exporter
    if exporter == "none":
        return
    endpoint, members = _first(known, ENDPOINT), PLAIN
    if exporter == "otlp" or endpoint is not None:
        _check_protocol(known)
        members = OTLP | PLAIN
    if endpoint is not None:
        name, base = endpoint
        yield ("traces", "endpoint"), base if name == ENDPOINT[0] else f"{base.rstrip('/')}/v1/traces"
    for member, names in members.items():
        if (found := _first(known, names)) is not None:
            yield ("traces", member), _read(member, *found)
    yield from _resource(known)


def variables_of(member: str) -> str:
    """The variables that may have given the setting `traces.MEMBER`, the one that takes precedence first."""
    return " or ".join((PLAIN | OTLP | {"endpoint": ENDPOINT}).get(member, ("OTEL_*",)))


def _first(known: Mapping[str, str], names: tuple[str, ...]) -> tuple[str, str] | None:
    return next(((name, known[name]) for name in names if name in known), None)


def _read(member: str, name: str, value: str) -> object:
    if member == "headers":
        return _pairs(name, value, is_secret=True)
    return _seconds(name, value) if member in IN_MILLISECONDS else value


def _exporter(known: Mapping[str, str]) -> str | None:
    name = known.get("OTEL_TRACES_EXPORTER")
    if name is None or name in ("otlp", "none"):
        return name
    raise OtelError(f"OTEL_TRACES_EXPORTER = {name!r}: traces are exported by otlp alone; use otlp or none")


def _check_protocol(known: Mapping[str, str]) -> None:
    found = _first(known, PROTOCOL)
    if found is not None and found[1] != HTTP:
        name, value = found
        raise OtelError(
            f"{name} = {value!r}: traces are exported by {HTTP}; set "
            f"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL={HTTP} and the port for HTTP (4318), "
            "or OTEL_TRACES_EXPORTER=none"
        )


def _resource(known: Mapping[str, str]) -> Iterator[Setting]:
    name = "OTEL_RESOURCE_ATTRIBUTES"
    pairs = _pairs(name, known.get(name, ""))
    named = pairs.pop("service.name", None)
    service = known.get("OTEL_SERVICE_NAME", named)
    if service is not None:
        yield ("traces", "service_name"), service
    if pairs:
        yield ("traces", "resource"), pairs


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
