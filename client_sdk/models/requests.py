"""The small bodies of the API's other routes (SPEC section 10)."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from client_sdk.models.definition import read_timer
from client_sdk.models.fields import Count, FilledText, Flag, Integer, JobId, Text, WireModel
from client_sdk.models.timer import Timer


class Activation(WireModel):
    """`PUT /jobs/{jobId}`: whether the job is to fire, or whether nothing of it is to run."""

    active: Flag | None = None
    disabled: Flag | None = None


class Cancellation(WireModel):
    """`POST /executions/{executionId}/cancel`."""

    reason: FilledText | None = None


class ReplayRequest(WireModel):
    """`POST /executions/{executionId}/replay`: from which step (its `index`), with which parameters."""

    from_step: Count = 0
    params: dict[str, Any] | None = None


class SignIn(WireModel):
    """`POST /session`: the key that callers without a browser send as `Authorization: Bearer KEY`."""

    key: FilledText


class PreviewRequest(WireModel):
    """`POST /timers/preview`; `from` is the moment of creation for delays and ttl."""

    timer: Annotated[Timer | None, BeforeValidator(read_timer, json_schema_input_type=Timer | str | None)] = (
        None
    )
    from_: Text | None = None
    until: Text | None = None
    count: Annotated[Integer, Field(ge=1, le=1_000)] | None = None


class OutlookRequest(WireModel):
    """`POST /timers/outlook`; `from` is the moment of creation; `jobId` is left out of the other jobs."""

    timer: Annotated[Timer | None, BeforeValidator(read_timer, json_schema_input_type=Timer | str | None)] = (
        None
    )
    from_: Text | None = None
    days: Annotated[Integer, Field(ge=1, le=366)] = 30
    job_id: JobId | None = None


class TrialRequest(WireModel):
    """`POST /definitions/try`: a definition, and the parameters of its one execution."""

    definition: dict[str, Any]
    params: dict[str, Any] = Field({})


class TemplateRequest(WireModel):
    """`POST /templates/preview`: a text, in a body any JSON value; tried on `root` as if it stood there."""

    template: Any
    root: dict[str, Any] = Field({})
    place: Literal["body", "url", "header"] = "body"
