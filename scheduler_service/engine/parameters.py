"""Parameters of a trigger against the job's `paramsSchema` (JSON Schema 2020-12, patterns by RE2)."""

from collections.abc import Iterator
from typing import Any

import jsonschema
import re2
from jsonschema.validators import extend
from referencing import Registry

from client_sdk.models.problems import write_pointer
from scheduler_service.domain.errors import Problem

MOST = 20


def check_schema(schema: object) -> list[Problem]:
    """What is wrong with `paramsSchema` itself: no schema, a pattern RE2 cannot run, a foreign reference."""
    if isinstance(schema, bool):
        return []
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        pointer = "/paramsSchema" + write_pointer(error.absolute_path)
        return [Problem(pointer, "invalid", f"no JSON Schema: {error.message}")]
    return list(_check_parts(schema, "/paramsSchema"))


def check_parameters(schema: object, parameters: object) -> list[Problem]:
    """What is wrong with `parameters` under a schema that `check_schema` has passed; at most 20 problems."""
    validator = _VALIDATOR(schema, registry=Registry())
    found = []
    for error in validator.iter_errors(parameters):
        found.append(Problem(write_pointer(error.absolute_path), "params", error.message[:300]))
        if len(found) == MOST:
            break
    return found


def _check_parts(schema: object, pointer: str) -> Iterator[Problem]:
    if isinstance(schema, list):
        for index, item in enumerate(schema):
            yield from _check_parts(item, f"{pointer}/{index}")
        return
    if not isinstance(schema, dict):
        return
    for key, value in schema.items():
        place = pointer + write_pointer([key])
        if key in ("$ref", "$dynamicRef") and isinstance(value, str) and not value.startswith("#"):
            yield Problem(place, "invalid", f"the reference {value!r} leads out of the schema; use #/…")
        elif key == "pattern" and isinstance(value, str):
            yield from _check_pattern(value, place)
        elif key == "patternProperties" and isinstance(value, dict):
            for text in value:
                yield from _check_pattern(text, place + write_pointer([text]))
        yield from _check_parts(value, place)


def _check_pattern(text: str, pointer: str) -> Iterator[Problem]:
    if _compile(text) is None:
        yield Problem(pointer, "invalid", f"the pattern {text!r} is none that RE2 runs (no look-around)")


def _compile(text: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error:
        return None


def _match(validator: Any, pattern: str, instance: object, schema: object) -> Iterator[Any]:
    if isinstance(instance, str) and _compile(pattern).search(instance) is None:
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


def _match_names(validator: Any, patterns: Any, instance: object, schema: object) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    for pattern, below in patterns.items():
        compiled = _compile(pattern)
        for name, value in instance.items():
            if compiled.search(name) is not None:
                yield from validator.descend(value, below, path=name, schema_path=pattern)


_VALIDATOR = extend(jsonschema.Draft202012Validator, {"pattern": _match, "patternProperties": _match_names})
