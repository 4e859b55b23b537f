"""The settings of the export of traces (SPEC section 14)."""

from typing import Annotated, Literal

from pydantic import Field

from scheduler_service.settings.model import Group, Positive, PositiveCount


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
