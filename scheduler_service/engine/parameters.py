"""Parameters of a trigger against the job's `paramsSchema` (JSON Schema 2020-12, patterns by RE2)."""

from collections.abc import Iterator
from typing import Any

import jsonschema
import re2
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from client_sdk.models.problems import write_pointer
from scheduler_service.domain.errors import Problem
from scheduler_service.language.values import scrub

MOST = 20
DIALECT = "https://json-schema.org/draft/2020-12/schema"
REFERENCES = ("$ref", "$dynamicRef")
NO_FORMATS = jsonschema.FormatChecker(())


def check_schema(schema: object) -> list[Problem]:
    """What is wrong with `paramsSchema` itself.

    Refused are: no schema, a pattern RE2 cannot run, a reference to what is not in it, another dialect or
    an `$id` within, and `unevaluatedProperties`, which would have to run patterns elsewhere.
    """
    if isinstance(schema, bool):
        return []
    try:
        jsonschema.Draft202012Validator.check_schema(schema, format_checker=NO_FORMATS)
    except jsonschema.SchemaError as error:
        pointer = "/paramsSchema" + write_pointer(error.absolute_path)
        return [Problem(pointer, "invalid", f"no JSON Schema: {error.message[:300]}")]
    return list(_check_parts(schema, schema, "/paramsSchema"))


def check_parameters(schema: object, parameters: object) -> list[Problem]:
    """What is wrong with `parameters` under a schema that `check_schema` has passed; at most 20 problems."""
    found = []
    try:
        for error in _VALIDATOR(schema, registry=Registry()).iter_errors(parameters):
            found.append(Problem(write_pointer(error.absolute_path), "params", error.message[:300]))
            if len(found) == MOST:
                break
    except (RecursionError, ArithmeticError, TypeError) as error:
        # A schema that refers to itself without end; a number beyond what `multipleOf` can divide.
        text = f"paramsSchema cannot judge these parameters ({type(error).__name__}); correct it"
        return [Problem("", "params", text)]
    return found


def _check_parts(root: object, schema: object, pointer: str) -> Iterator[Problem]:
    if isinstance(schema, list):
        for index, item in enumerate(schema):
            yield from _check_parts(root, item, f"{pointer}/{index}")
    elif isinstance(schema, dict):
        for key, value in schema.items():
            place = pointer + write_pointer([key])
            yield from _check_keyword(root, key, value, place)
            yield from _check_parts(root, value, place)


def _check_keyword(root: object, key: str, value: object, place: str) -> Iterator[Problem]:
    if key in REFERENCES and isinstance(value, str):
        yield from _check_reference(root, value, place)
    elif key == "pattern" and isinstance(value, str):
        yield from _check_pattern(value, place)
    elif key == "patternProperties" and isinstance(value, dict):
        for text in value:
            yield from _check_pattern(text, place + write_pointer([text]))
    elif key == "unevaluatedProperties":
        yield Problem(place, "not_available", "unevaluatedProperties is not available; remove it")
    elif (key == "$id" and isinstance(value, str)) or (key == "$schema" and value != DIALECT):
        yield Problem(place, "invalid", f"{key} {value!r} is not possible here; remove it")


def _check_reference(root: object, text: str, pointer: str) -> Iterator[Problem]:
    if not text.startswith("#"):
        yield Problem(pointer, "invalid", f"the reference {text!r} leads out of the schema; use #/…")
        return
    try:
        found = Registry().resolver_with_root(DRAFT202012.create_resource(root)).lookup(text).contents
        jsonschema.Draft202012Validator.check_schema(found, format_checker=NO_FORMATS)
    except (Unresolvable, ValueError, TypeError, jsonschema.SchemaError):
        yield Problem(pointer, "invalid", f"the reference {text!r} leads to no schema; correct it")


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


def _finds(pattern: str, text: str) -> bool:
    return _compile(pattern).search(scrub(text)) is not None


def _match(validator: Any, pattern: str, instance: object, schema: object) -> Iterator[Any]:
    if isinstance(instance, str) and not _finds(pattern, instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


def _match_names(validator: Any, patterns: Any, instance: object, schema: object) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    for pattern, below in patterns.items():
        for name, value in instance.items():
            if _finds(pattern, name):
                yield from validator.descend(value, below, path=name, schema_path=pattern)


def _match_others(validator: Any, below: Any, instance: object, schema: Any) -> Iterator[Any]:
    """`additionalProperties`: the library's own runs patterns by an engine that can be made to hang."""
    if not isinstance(instance, dict):
        return
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, value in instance.items():
        if name in named or any(_finds(pattern, name) for pattern in patterns):
            continue
        if below is False:
            yield jsonschema.ValidationError(f"{name!r} is no parameter of this job", path=[name])
        else:
            yield from validator.descend(value, below, path=name)


_VALIDATOR = extend(
    jsonschema.Draft202012Validator,
    {"pattern": _match, "patternProperties": _match_names, "additionalProperties": _match_others},
)
