"""`paramsSchema`: is it safe to run, and parameters against it (JSON Schema 2020-12; SPEC section 2)."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import jsonschema
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from client_sdk.models.parse import write_pointer
from scheduler_service.domain.errors import Problem
from scheduler_service.domain.texts import scrub
from scheduler_service.language.iregexp import compile_re2
from scheduler_service.language.json_values import as_json

PROBLEMS_MAX = 20
CHECKS_MAX = 50_000
"""Checks that one validation may use: a short schema can need very many, by references and in lists."""

VALUES_MAX = 2_000
"""Values in a schema, itself included: checking one takes as long as running it."""

PATTERNS_MAX = 100
PATTERN_CHARACTERS_MAX, PATTERN_CLASSES_MAX = 1_000, 50
"""Of one pattern: RE2 takes up to 0.1 ms for a class of Unicode, and lets nobody else run meanwhile."""

PATTERN_BYTES_MAX = 1 << 19
"""What RE2 may take for one pattern; it compiles as much in 4 ms."""

INSTRUCTIONS_MAX = 50_000
"""All patterns of a schema, compiled, together: they are compiled for each trigger."""

LONGEST_MESSAGE = 300
SHOWN_ITEMS = 20
"""Of a list or an object in a message: the library repeats a value in each, a MiB each."""
CHECKS_A_PATTERN = 100
INSTRUCTIONS_A_CHECK, STEPS_A_CHECK = 30, 7_000
"""Compiling so many instructions takes as long as a check, and so many steps of running them at the worst."""

DIALECT = "https://json-schema.org/draft/2020-12/schema"
REFERENCES = ("$ref", "$dynamicRef")
NO_FORMATS = jsonschema.FormatChecker(())
Keyword = Callable[[Any, Any, object, Any], Iterator[Any] | None]


def check_parameters(schema: object, parameters: object) -> list[Problem]:
    """What is wrong with `parameters` under a schema that `check_schema` has passed; at most 20 problems.

    Parameters that need more than 50,000 checks are refused: checks are counted, time is not measured.
    """
    meter = _Meter()
    found = []
    try:
        validator = _VALIDATOR(schema, registry=Registry(), format_checker=meter)
        for error in validator.iter_errors(_shorten(parameters)):
            found.append(Problem(write_pointer(error.absolute_path), "params", _phrase(error)))
            if len(found) == PROBLEMS_MAX:
                break
    except _Exhausted:
        text = (
            f"paramsSchema needs more than {CHECKS_MAX} checks for these parameters; send less, or correct it"
        )
        return [Problem("", "params", text)]
    except (RecursionError, ArithmeticError, TypeError) as error:
        # A schema that refers to itself without end, or a number too large for `multipleOf`.
        text = f"paramsSchema cannot check these parameters ({type(error).__name__}); correct it"
        return [Problem("", "params", text)]
    return found


def _phrase(error: jsonschema.ValidationError) -> str:
    """Its message, with true, false and null as JSON has them; the library shows Python's words."""
    if error.validator == "enum":
        text = f"{_show(error.instance)} is not one of [{', '.join(map(_show, error.validator_value))}]"
    elif error.validator == "const":
        text = f"{_show(error.validator_value)} was expected"
    elif isinstance(error.instance, bool | None):
        text = _show(error.instance) + error.message.removeprefix(repr(error.instance))
    else:
        return str(error.message)
    return text[:LONGEST_MESSAGE]


def _show(value: object) -> str:
    return as_json(value).decode() if isinstance(value, bool | None) else repr(value)


def check_schema(schema: object) -> list[Problem]:
    """What is wrong with `paramsSchema` itself, at most 20 problems.

    Refused are: a value that is not a schema, a pattern that RE2 cannot run, a reference out of the schema,
    another dialect, a nested `$id`, `unevaluatedProperties` (it would run patterns in another engine), more
    than 2,000 values or 100 patterns, and patterns that take long to compile.
    """
    if isinstance(schema, bool):
        return []
    if sum(1 for _ in islice(_values(schema), VALUES_MAX + 1)) > VALUES_MAX:
        message = f"it has more than {VALUES_MAX} values; check less of the parameters"
        return [Problem("/paramsSchema", "too_many", message)]
    try:
        jsonschema.Draft202012Validator.check_schema(schema, format_checker=NO_FORMATS)
    except jsonschema.SchemaError as error:
        pointer = "/paramsSchema" + write_pointer(error.absolute_path)
        return [Problem(pointer, "invalid", f"not a JSON Schema: {error.message[:LONGEST_MESSAGE]}")]
    return list(islice(_SchemaParts(schema).check(schema, "/paramsSchema"), PROBLEMS_MAX))


class _BriefList(list[object]):
    def __repr__(self) -> str:
        more = ", …" if len(self) > SHOWN_ITEMS else ""
        return f"[{', '.join(map(repr, self[:SHOWN_ITEMS]))}{more}]"


class _BriefDict(dict[str, object]):
    def __repr__(self) -> str:
        shown = ", ".join(f"{name!r}: {value!r}" for name, value in islice(self.items(), SHOWN_ITEMS))
        return f"{{{shown}{', …' if len(self) > SHOWN_ITEMS else ''}}}"


def _shorten(value: object) -> object:
    """A JSON value equal to `value`, whose lists and objects show their first 20 items alone."""
    if type(value) is list:
        return _BriefList(map(_shorten, value))
    if type(value) is dict:
        return _BriefDict((name, _shorten(item)) for name, item in value.items())
    return value


class _Exhausted(Exception):
    """The checks are used up."""


class _Meter:
    """Counts the checks of one validation and caches its patterns.

    It is passed as the format checker, which reaches every part of a validator; `format` itself is not used.
    """

    def __init__(self) -> None:
        self.left = CHECKS_MAX
        self.patterns: dict[str, Any] = {}

    def spend(self, checks: int) -> None:
        """Uses up `checks`. Raises _Exhausted when none are left."""
        self.left -= checks
        if self.left < 0:
            raise _Exhausted

    def finds(self, pattern: str, text: str) -> bool:
        """Whether `pattern` matches somewhere in `text`."""
        if pattern not in self.patterns:
            self.spend(CHECKS_A_PATTERN)
            self.patterns[pattern] = compile_re2(pattern)
            self.spend(self.patterns[pattern].programsize // INSTRUCTIONS_A_CHECK)
        compiled = self.patterns[pattern]
        self.spend(1 + len(text) // 64 + len(text) * compiled.programsize // STEPS_A_CHECK)
        return compiled.search(scrub(text)) is not None


def _match(validator: Any, pattern: str, instance: object, schema: object) -> Iterator[Any]:
    if isinstance(instance, str) and not validator.format_checker.finds(pattern, instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


def _match_names(validator: Any, patterns: Any, instance: object, schema: object) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    for pattern, below in patterns.items():
        for name, value in instance.items():
            if validator.format_checker.finds(pattern, name):
                yield from validator.descend(value, below, path=name, schema_path=pattern)


def _match_others(validator: Any, below: Any, instance: object, schema: Any) -> Iterator[Any]:
    """`additionalProperties`: the library's own uses a pattern engine that can be made to hang."""
    if not isinstance(instance, dict):
        return
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, value in instance.items():
        if name in named or any(validator.format_checker.finds(pattern, name) for pattern in patterns):
            continue
        if below is False:
            yield jsonschema.ValidationError(f"{name!r} is not a parameter of this job", path=[name])
        else:
            yield from validator.descend(value, below, path=name)


def _unrepeated(validator: Any, wanted: object, instance: object, schema: object) -> Iterator[Any]:
    """`uniqueItems`: the library's own compares every pair of objects."""
    if wanted is not True or not isinstance(instance, list):
        return
    if len({_hashable(item) for item in instance}) < len(instance):
        yield jsonschema.ValidationError("has items that are equal")


def _hashable(value: object) -> object:
    """Equal for equal JSON values: 1.0 equals 1, true does not."""
    if isinstance(value, dict):
        return frozenset((key, _hashable(item)) for key, item in value.items())
    if isinstance(value, list):
        return tuple(_hashable(item) for item in value)
    return (bool, value) if isinstance(value, bool) else value


def _metered(keyword: Keyword) -> Keyword:
    """`keyword`, which uses up one check, and one for each entry that it compares and 64 bytes of a message.

    The library repeats the value in each of its messages, and keeps those of all branches of an `anyOf`.
    """

    def check(validator: Any, value: Any, instance: object, schema: Any) -> Iterator[Any]:
        spend = validator.format_checker.spend
        spend(1 + (len(value) if isinstance(value, list | dict) else 0))
        for error in keyword(validator, value, instance, schema) or ():
            spend(len(error.message) // 64)
            error.message = error.message[:LONGEST_MESSAGE]
            yield error

    return check


def _note(validator: Any, value: object, instance: object, schema: object) -> Iterator[Any]:
    """`format` is an annotation and checks nothing."""
    return iter(())


_OWN: dict[str, Keyword] = {
    "pattern": _match,
    "patternProperties": _match_names,
    "additionalProperties": _match_others,
    "uniqueItems": _unrepeated,
}
_KEYWORDS: dict[str, Keyword] = {**jsonschema.Draft202012Validator.VALIDATORS, "format": _note, **_OWN}
_VALIDATOR = extend(
    jsonschema.Draft202012Validator, {name: _metered(keyword) for name, keyword in _KEYWORDS.items()}
)


def _values(value: object) -> Iterator[object]:
    yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in inner:
        yield from _values(item)


class _SchemaParts:
    """Walks a schema once. `known` has the ids of the parts that are known to be schemas."""

    def __init__(self, root: object) -> None:
        self.root = root
        self.resolver = Registry().resolver_with_root(DRAFT202012.create_resource(root))
        self.known: set[int] = set()
        self.patterns = 0
        self.instructions = 0
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
        if self.patterns > PATTERNS_MAX:
            if self.patterns == PATTERNS_MAX + 1:
                yield Problem(pointer, "too_many", f"the schema has more than {PATTERNS_MAX} patterns")
            return
        classes = text.count("\\p") + text.count("\\P")
        if len(text) > PATTERN_CHARACTERS_MAX or classes > PATTERN_CLASSES_MAX:
            limits = f"{PATTERN_CHARACTERS_MAX} characters and {PATTERN_CLASSES_MAX} classes such as \\pL"
            yield Problem(pointer, "too_many", f"a pattern has at most {limits}; shorten {text[:80]!r}")
            return
        compiled = compile_re2(text, max_mem=PATTERN_BYTES_MAX)
        if compiled is None:
            message = f"RE2 cannot run the pattern {text!r}: it has no look-around, and large repetitions of "
            yield Problem(pointer, "invalid", f"{message}classes take too much; limit lengths with maxLength")
            return
        is_first = self.instructions <= INSTRUCTIONS_MAX
        self.instructions += compiled.programsize
        if is_first and self.instructions > INSTRUCTIONS_MAX:
            message = "the patterns up to this one are too large together; repeat fewer times"
            yield Problem(pointer, "too_many", f"{message}, and limit lengths with maxLength")
