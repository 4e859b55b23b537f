"""Checks that `paramsSchema` is a JSON Schema 2020-12 that is safe to run (SPEC section 2)."""

from collections.abc import Iterator
from itertools import islice

import jsonschema
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from client_sdk.models.problems import write_pointer
from scheduler_service.domain.errors import Problem
from scheduler_service.language.iregexp import compile_re2

VALUES_MAX = 2_000
"""Values in a schema, itself included: checking one takes as long as running it."""

PATTERNS_MAX = 100
PROBLEMS_MAX = 20
DIALECT = "https://json-schema.org/draft/2020-12/schema"
REFERENCES = ("$ref", "$dynamicRef")
NO_FORMATS = jsonschema.FormatChecker(())


def check_schema(schema: object) -> list[Problem]:
    """What is wrong with `paramsSchema` itself, at most 20 problems.

    Refused are: a value that is not a schema, a pattern that RE2 cannot run, a reference out of the schema,
    another dialect, a nested `$id`, `unevaluatedProperties` (it would run patterns in another engine), and
    more than 2,000 values or 100 patterns.
    """
    if isinstance(schema, bool):
        return []
    size = sum(1 for _ in _values(schema))
    if size > VALUES_MAX:
        message = f"it has {size} values, at most {VALUES_MAX} are allowed; check less of the parameters"
        return [Problem("/paramsSchema", "too_many", message)]
    try:
        jsonschema.Draft202012Validator.check_schema(schema, format_checker=NO_FORMATS)
    except jsonschema.SchemaError as error:
        pointer = "/paramsSchema" + write_pointer(error.absolute_path)
        return [Problem(pointer, "invalid", f"not a JSON Schema: {error.message[:300]}")]
    return list(islice(_Parts(schema).check(schema, "/paramsSchema"), PROBLEMS_MAX))


def _values(value: object) -> Iterator[object]:
    yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in inner:
        yield from _values(item)


class _Parts:
    """Walks a schema once. `known` has the ids of the parts that are known to be schemas."""

    def __init__(self, root: object) -> None:
        self.root = root
        self.resolver = Registry().resolver_with_root(DRAFT202012.create_resource(root))
        self.known: set[int] = set()
        self.patterns = 0
        self._learn(root)

    def check(self, part: object, pointer: str) -> Iterator[Problem]:
        """What is wrong with the keywords of `part` and of all below it."""
        if isinstance(part, list):
            for index, item in enumerate(part):
                yield from self.check(item, f"{pointer}/{index}")
        elif isinstance(part, dict):
            for key, value in part.items():
                place = pointer + write_pointer([key])
                yield from self._check_keyword(key, value, place)
                yield from self.check(value, place)

    def _learn(self, schema: object) -> None:
        """Marks a checked schema and its subschemas as known, so that they are not checked again."""
        if isinstance(schema, dict) and id(schema) not in self.known:
            self.known.add(id(schema))
            for part in DRAFT202012.subresources_of(schema):
                self._learn(part)

    def _check_keyword(self, key: str, value: object, place: str) -> Iterator[Problem]:
        if key in REFERENCES and isinstance(value, str):
            yield from self._check_reference(value, place)
        elif key == "pattern" and isinstance(value, str):
            yield from self._check_pattern(value, place)
        elif key == "patternProperties" and isinstance(value, dict):
            for text in value:
                yield from self._check_pattern(text, place + write_pointer([text]))
        elif key == "unevaluatedProperties":
            yield Problem(place, "not_available", "unevaluatedProperties is not available; remove it")
        elif (key == "$id" and isinstance(value, str)) or (key == "$schema" and value != DIALECT):
            yield Problem(place, "invalid", f"{key} {value!r} is not possible here; remove it")

    def _check_reference(self, text: str, pointer: str) -> Iterator[Problem]:
        if not text.startswith("#"):
            yield Problem(pointer, "invalid", f"the reference {text!r} leads out of the schema; use #/…")
            return
        try:
            found = self.resolver.lookup(text).contents
            if id(found) not in self.known:
                jsonschema.Draft202012Validator.check_schema(found, format_checker=NO_FORMATS)
                self._learn(found)
        except (Unresolvable, ValueError, TypeError, jsonschema.SchemaError):
            yield Problem(pointer, "invalid", f"the reference {text!r} does not lead to a schema; correct it")

    def _check_pattern(self, text: str, pointer: str) -> Iterator[Problem]:
        self.patterns += 1
        if self.patterns == PATTERNS_MAX + 1:
            yield Problem(pointer, "too_many", f"the schema has more than {PATTERNS_MAX} patterns")
        elif self.patterns <= PATTERNS_MAX and compile_re2(text) is None:
            yield Problem(pointer, "invalid", f"RE2 cannot run the pattern {text!r} (it has no look-around)")
