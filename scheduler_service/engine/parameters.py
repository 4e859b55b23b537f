"""Parameters of a trigger against the job's `paramsSchema` (JSON Schema 2020-12, patterns by RE2)."""

from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
from jsonschema.validators import extend
from referencing import Registry

from client_sdk.models.problems import write_pointer
from scheduler_service.domain.errors import Problem
from scheduler_service.engine.schemas import compile_pattern
from scheduler_service.language.values import scrub

MOST = 20
CHECKS = 50_000
"""How many checks one schema may ask for: a short one can ask for very many, by references and in lists."""

Keyword = Callable[[Any, Any, object, Any], Iterator[Any] | None]


def check_parameters(schema: object, parameters: object) -> list[Problem]:
    """What is wrong with `parameters` under a schema that `check_schema` has passed; at most 20 problems.

    A schema that asks for more than 50,000 checks of them refuses them: nothing is measured in time.
    """
    found = []
    try:
        for error in _VALIDATOR(schema, registry=Registry(), format_checker=_Meter()).iter_errors(parameters):
            found.append(Problem(write_pointer(error.absolute_path), "params", error.message[:300]))
            if len(found) == MOST:
                break
    except _Exhausted:
        text = (
            f"paramsSchema asks for more than {CHECKS} checks of these parameters; send less, or correct it"
        )
        return [Problem("", "params", text)]
    except (RecursionError, ArithmeticError, TypeError) as error:
        # A schema that refers to itself without end; a number beyond what `multipleOf` can divide.
        text = f"paramsSchema cannot judge these parameters ({type(error).__name__}); correct it"
        return [Problem("", "params", text)]
    return found


class _Exhausted(Exception):
    """The checks are used up."""


class _Meter:
    """Counts the checks of one validation and keeps its patterns.

    It travels as the format checker, which every part of a validator is given; `format` itself is a note.
    """

    def __init__(self) -> None:
        self.left = CHECKS
        self.patterns: dict[str, Any] = {}

    def spend(self, checks: int) -> None:
        """Takes `checks` away. Raises _Exhausted when there are no more."""
        self.left -= checks
        if self.left < 0:
            raise _Exhausted

    def finds(self, pattern: str, text: str) -> bool:
        """Whether `text` holds what `pattern` describes."""
        self.spend(1 + len(text) // 64)
        if pattern not in self.patterns:
            self.patterns[pattern] = compile_pattern(pattern)
        return self.patterns[pattern].search(scrub(text)) is not None


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
    """`additionalProperties`: the library's own runs patterns by an engine that can be made to hang."""
    if not isinstance(instance, dict):
        return
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, value in instance.items():
        if name in named or any(validator.format_checker.finds(pattern, name) for pattern in patterns):
            continue
        if below is False:
            yield jsonschema.ValidationError(f"{name!r} is no parameter of this job", path=[name])
        else:
            yield from validator.descend(value, below, path=name)


def _unrepeated(validator: Any, wanted: object, instance: object, schema: object) -> Iterator[Any]:
    """`uniqueItems`: the library's own compares each with each where items are objects."""
    if wanted is not True or not isinstance(instance, list):
        return
    if len({_hashable(item) for item in instance}) < len(instance):
        yield jsonschema.ValidationError("has items that are equal")


def _hashable(value: object) -> object:
    """Equal for equal values: 1.0 is 1, and true is not."""
    if isinstance(value, dict):
        return frozenset((key, _hashable(item)) for key, item in value.items())
    if isinstance(value, list):
        return tuple(_hashable(item) for item in value)
    return (bool, value) if isinstance(value, bool) else value


def _metered(keyword: Keyword) -> Keyword:
    """`keyword`, after it has paid: one check, and one for each entry that it compares with."""

    def check(validator: Any, value: Any, instance: object, schema: Any) -> Iterator[Any]:
        validator.format_checker.spend(1 + (len(value) if isinstance(value, list | dict) else 0))
        yield from keyword(validator, value, instance, schema) or ()

    return check


def _note(validator: Any, value: object, instance: object, schema: object) -> Iterator[Any]:
    """`format` describes and checks nothing."""
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
