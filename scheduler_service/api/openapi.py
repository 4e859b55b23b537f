"""The description of the API in OpenAPI 3.1, generated from the operations that are served."""

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from inspect import cleandoc
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import models_json_schema

from client_sdk.models import JOB_ID, answers
from client_sdk.models.fields import CALENDAR, INSTANCE_ID
from client_sdk.models.services import SERVICE_NAME
from scheduler_service.api.parameters import LARGEST, LONGEST_TEXT, Parameter
from scheduler_service.api.request import LONGEST_IN_PATH, ApiOperation, PostedBody
from scheduler_service.api.responses import title_of
from scheduler_service.domain.secret_places import SECRET_NAME

Schema = dict[str, Any]
References = Mapping[tuple[Any, str], Schema]
REF = "#/components/schemas/{model}"
PROBLEM = {"$ref": "#/components/schemas/ProblemDetails"}
KEYWORDS = {"ge": "minimum", "le": "maximum"}
FORMATS = {"integer": "int64", "number": "double"}
PATHS: Mapping[str, Schema] = {
    "jobId": {"type": "string", "pattern": JOB_ID, "maxLength": 128, "examples": ["nightly-report"]},
    "requestCounts": {"type": "integer", "minimum": 0, "maximum": LARGEST},
    "executionId": {"type": "string", "maxLength": LONGEST_IN_PATH},
    "operationId": {"type": "string", "maxLength": LONGEST_IN_PATH},
    "deliveryId": {"type": "string", "maxLength": LONGEST_IN_PATH},
    "keyId": {"type": "string", "maxLength": LONGEST_IN_PATH},
    "lease": {"type": "string", "maxLength": LONGEST_IN_PATH},
    "secretName": {
        "type": "string",
        "pattern": f"^{SECRET_NAME.pattern}$",
        "maxLength": 128,
        "examples": ["SHOP_TOKEN"],
    },
    "calendarName": {"type": "string", "pattern": CALENDAR, "maxLength": 128, "examples": ["china"]},
    "name": {"type": "string", "pattern": SERVICE_NAME, "maxLength": 128, "examples": ["billing"]},
    "instanceId": {"type": "string", "pattern": INSTANCE_ID, "maxLength": 128, "examples": ["billing-1"]},
}
DESCRIPTION = (
    "Jobs as REST resources. Every success is an envelope with `data` and `warnings`; every failure is a "
    "problem (RFC 9457) with a JSON Pointer per error. POST honours `Idempotency-Key` for 24 hours. "
    "Where a body gives a name twice, the last one counts."
)


def describe(operations: Iterable[ApiOperation], *, version: str) -> Schema:
    """The whole document."""
    known = tuple(operations)
    references, definitions = _collect(known)
    paths: dict[str, Schema] = {}
    for operation in known:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, references)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Punctual", "version": version, "description": DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": definitions,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "tags": [{"name": name} for name in dict.fromkeys(operation.tag for operation in known)],
    }


def _collect(operations: tuple[ApiOperation, ...]) -> tuple[References, Schema]:
    models = {operation.body.model for operation in operations if operation.body is not None}
    models |= {operation.data for operation in operations} | {answers.ProblemDetails, answers.ProblemError}
    named = sorted(models - {None, dict}, key=lambda model: str(model.__name__))
    inputs: list[Any] = [(model, "validation") for model in named]
    references, document = models_json_schema(inputs, by_alias=True, ref_template=REF)
    definitions = {name: _readable(schema) for name, schema in document["$defs"].items()}
    return references, definitions  # type: ignore[return-value]


def _readable(schema: Any) -> Any:
    """`schema` as generators of clients read it.

    Pydantic writes the limits of our integers as `ge` and `le`, which no reader of JSON Schema knows, and
    gives each property its own name as a title, after which a generator names a type. A number without a
    format has 32 bits in Go and Java.
    """
    if isinstance(schema, list):
        return [_readable(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    read = {KEYWORDS.get(name, name): _readable(one) for name, one in schema.items() if name != "properties"}
    if isinstance(read.get("title"), str):
        del read["title"]
    if read.get("type") in FORMATS:
        read.setdefault("format", FORMATS[read["type"]])
    if "properties" in schema:
        read["properties"] = {name: _readable(one) for name, one in schema["properties"].items()}
    return read


def _operation(operation: ApiOperation, references: References) -> Schema:
    described: Schema = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": cleandoc(str(operation.handler.__doc__)),
        "tags": [operation.tag],
        "parameters": [*_path_parameters(operation), *map(_parameter, operation.query), *_headers(operation)],
        "responses": _responses(operation, references),
    }
    if operation.body is not None:
        described["requestBody"] = _body(operation.body, references)
    described["security"] = [{}] if operation.is_open else [{"key": []}, {}]
    return described


def _path_parameters(operation: ApiOperation) -> list[Schema]:
    names = re.findall(r"\{(\w+)\}", operation.path)
    return [{"name": name, "in": "path", "required": True, "schema": dict(PATHS[name])} for name in names]


def _parameter(parameter: Parameter) -> Schema:
    described: Schema = {
        "name": parameter.name,
        "in": "query",
        "description": parameter.description,
        "required": parameter.required,
        "schema": _bounded(parameter.schema, parameter),
    }
    if parameter.repeated:
        described |= {"style": "form", "explode": True}
    if parameter.example is not None:
        described["example"] = parameter.example
    return described


def _bounded(schema: Mapping[str, Any], parameter: Parameter) -> Schema:
    """`schema` with the limits that hold for every parameter."""
    if schema["type"] == "array":
        return {**schema, "items": _bounded(schema["items"], parameter), "maxItems": parameter.most}
    return {**schema, "maxLength": parameter.longest} if schema["type"] == "string" else dict(schema)


def _headers(operation: ApiOperation) -> list[Schema]:
    names = [*operation.headers, *(["Idempotency-Key"] if operation.method == "POST" else [])]
    schemas: Mapping[str, Schema] = {
        "Idempotency-Key": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
        "If-Match": {"type": "string", "maxLength": LONGEST_TEXT, "examples": ['"1"']},
        "Last-Event-ID": {"type": "string", "maxLength": LONGEST_TEXT, "examples": ["7-1042"]},
        "X-Service": {"type": "string", "pattern": SERVICE_NAME, "maxLength": 128},
    }
    return [{"name": name, "in": "header", "required": False, "schema": schemas[name]} for name in names]


def _body(body: PostedBody, references: References) -> Schema:
    schema = _schema(body.model, references)
    if body.is_array:
        schema = {"type": "array", "items": schema, "maxItems": 1_000}
    content: Schema = {"schema": schema} | ({} if body.example is None else {"example": body.example})
    return {"required": body.required, "content": {"application/json": content}}


def _schema(model: Any, references: References) -> Schema:
    if model is None:
        return {"type": "null"}
    if model is dict:
        return TypeAdapter(dict[str, Any]).json_schema()
    return dict(references[model, "validation"])


def _text(data: Any) -> Schema:
    if data is None:
        return {"type": "string"}
    return {"type": "string", "description": f"Frames, each with a {data.__name__} as JSON in `data`."}


def _responses(operation: ApiOperation, references: References) -> Schema:
    is_json = operation.media_type == "application/json"
    envelope: Schema = {
        "type": "object",
        "required": ["resp_code", "resp_msg", "data", "warnings"],
        "properties": {
            "resp_code": {"type": "integer", "const": 200},
            "resp_msg": {"type": "null"},
            "data": _schema(operation.data, references),
            "warnings": {"type": "array", "items": {"$ref": "#/components/schemas/ProblemError"}},
        },
    }
    successes = {
        str(status): {
            "description": HTTPStatus(status).phrase,
            "content": {operation.media_type: {"schema": envelope if is_json else _text(operation.data)}},
        }
        for status in operation.success
    }
    failure = {"application/problem+json": {"schema": PROBLEM}}
    return successes | {
        str(status): {"description": title_of(HTTPStatus(status)), "content": failure}
        for status in sorted(_failures(operation))
    }


def _failures(operation: ApiOperation) -> set[int]:
    with_key = set() if operation.is_open else {401, 429}
    with_body = set() if operation.body is None else {400, 413, 415}
    return {403, 422, 431, 503, *operation.statuses} | with_key | with_body
