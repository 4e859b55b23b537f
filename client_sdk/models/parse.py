"""Reads values into wire models, or reports all errors with their places and remedies."""

import difflib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar, get_args

from pydantic import ValidationError

from client_sdk.id_patterns import FORMS
from client_sdk.models.definition import JobDefinition, Timer
from client_sdk.models.fields import COUNTRY, LABEL_SCOPE, METHOD, TENANT, VARIABLE, WireModel

MAY_BE_TEXT = ("timer", "checkUrl")
"""The members of a definition that are an object or a string that holds one."""
MAX_DEPTH = 64
MAX_SUGGESTIONS = 50
"""Only this many problems get a suggested name: the search for one is slow."""
MAX_LISTED = 1_000
"""More errors than these are not read one by one: reading 100,000 takes seconds."""
Model = TypeVar("Model", bound=WireModel)
Path = tuple[str | int, ...]
CODES = {
    "missing": "required",
    "extra_forbidden": "unknown_field",
    "literal_error": "choice",
    "string_pattern_mismatch": "pattern",
    "too_long": "too_many",
    "too_short": "empty",
    "string_too_short": "empty",
    "string_too_long": "too_long",
    "finite_number": "range",
}
PHRASES = {
    "missing": "is required",
    "string_type": "must be a string",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "list_type": "must be an array",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "finite_number": "must be a finite number",
    "too_short": "must have at least one entry",
    "string_too_short": "must not be empty",
}
EXAMPLE_ATTEMPTS = 3
SHOWN_MEMBERS = 4
DURATIONS = ("period", "dueTime", "ttl")
MOMENTS = ("dueTime", "ttl", "startAt", "endAt")
EPOCH_DIGITS = {10: 1, 13: 1_000}
"""Seconds and milliseconds since 1970, by their digits from 2001 to 2286."""
LISTS = {"retry": "policy", "request": "step", "notification": "entry"}
_KIND = "the kind follows from dueTime and period"
TIMER_HINTS: Mapping[str | int, str] = {
    "kind": _KIND,
    "type": _KIND,
    "timing": _KIND,
    "timeing": _KIND,
    "cron": "a cron expression is written as period",
    "expression": "a cron expression is written as period",
    "schedule": "a cron expression is written as period",
    "interval": "it is written as period",
    "every": "it is written as period",
}
_TIMER_MEMBERS = (
    "period",
    "dueTime",
    "ttl",
    "timezone",
    "startAt",
    "endAt",
    "misfire",
    "jitterSeconds",
    "periodFrom",
    "calendar",
)
_STEP_MEMBERS = (
    "url",
    "method",
    "headers",
    "body",
    "respEnvName",
    "successCodes",
    "successWhen",
    "errorFrom",
    "messageFrom",
    "route",
    "tags",
)
_RETRY = 'retry is a list of policies, as [{"errorEquals": "*", "maxAttempts": 3}]'
DEFINITION_HINTS: Mapping[str | int, str] = {
    "cron": "a cron expression is written as period of timer",
    "schedule": "when a job fires is written as timer",
    "interval": "it is written as period of timer",
    "retries": _RETRY,
    "maxAttempts": _RETRY,
    "concurrencyPolicy": "what a second execution does is written as overlapPolicy",
    "suspend": "a job is created paused by active 0",
    **dict.fromkeys(_TIMER_MEMBERS, "it is a member of timer"),
    **dict.fromkeys(_STEP_MEMBERS, "it is a member of a step of request"),
}
_MODELS: list[type[WireModel]] = WireModel.__subclasses__()
KNOWN_NAMES = frozenset(
    field.alias or name for model in _MODELS for name, field in model.model_fields.items()
)
HINTS = {pattern: form for _, pattern, form in FORMS.values()} | {
    VARIABLE: "use letters, digits and '_', the first no digit",
    METHOD: "use an HTTP method, as in POST",
    TENANT: "use 1 to 64 of letters, digits, '.', '_' and '-', the first a letter or digit",
    LABEL_SCOPE: "write NAME:VALUE, as in team:ops, with at most 128 characters each",
    COUNTRY: "use the code of a country, or of a part of one, in capitals: CN, DE-BY",
}
"""Of each pattern of a member what to write."""


class Problem(NamedTuple):
    """One error: its place (RFC 6901), its stable code, and a message."""

    pointer: str
    code: str
    message: str


class ModelError(ValueError):
    """A value that does not have the wire format; `problems` holds each error once, never empty."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        super().__init__(
            "; ".join(f"{problem.pointer or '/'}: {problem.message}" for problem in self.problems)
        )


def write_pointer(path: Iterable[str | int]) -> str:
    """The JSON Pointer of `path`, as in `/request/0/headers/X~1Y` (RFC 6901)."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def point_to_posted(pointer: str, definition: Mapping[str, object]) -> str:
    """`pointer`, into a definition as it is read, as one into `definition` as it was posted (RFC 6901).

    A string has no members: an error inside it is located at the string.
    """
    texts = [f"/{name}" for name in MAY_BE_TEXT if isinstance(definition.get(name), str)]
    return next((text for text in texts if pointer.startswith(f"{text}/")), pointer)


def parse_definition(data: object, *, is_json: bool = False) -> JobDefinition:
    """`data` as a definition (SPEC section 2). Raises ModelError with all errors. See `parse_model`."""
    return parse_model(JobDefinition, data, is_json=is_json)


def parse_model(model: type[Model], data: object, *, is_json: bool = False) -> Model:
    """`data`, decoded JSON, as `model`; members have their names on the wire. Raises ModelError.

    `is_json`: it comes from a strict decoder, within 64 levels, so that it can hold nothing but JSON; to look
    takes a microsecond for each value.
    """
    foreign = () if is_json else tuple(find_foreign(data))
    if foreign:
        raise ModelError(foreign)
    try:
        return model.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        raise ModelError(_read_all_problems(model, data, error)) from None


def find_foreign(value: object, path: Path = ()) -> Iterator[Problem]:
    """The parts of `value` that JSON cannot hold: NaN, lone surrogates, other types, over 64 levels."""
    if isinstance(value, str):
        if not value.isascii():
            yield from _check_text(value, path)
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield Problem(write_pointer(path), "range", f"{value} is not a JSON number; use a finite one")
    elif isinstance(value, dict | list):
        yield from _check_container(value, path)
    elif value is not None and not isinstance(value, int):
        yield Problem(write_pointer(path), "type", f"{type(value).__name__} is not a JSON type")


def _check_container(value: dict[Any, Any] | list[Any], path: Path) -> Iterator[Problem]:
    if len(path) >= MAX_DEPTH:
        yield Problem(write_pointer(path), "too_deep", f"nested deeper than {MAX_DEPTH} levels; flatten it")
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from find_foreign(item, (*path, index))
        return
    for key, item in value.items():
        if not isinstance(key, str):
            yield Problem(write_pointer(path), "type", f"member name {key!r} must be a string")
            continue
        yield from find_foreign(item, (*path, key))
        if not key.isascii():
            yield from _check_text(key, path)


def _check_text(text: str, path: Path) -> Iterator[Problem]:
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        yield Problem(_write_safely(path), "surrogate", "has half of a surrogate pair; send whole characters")


def _write_safely(path: Path) -> str:
    return write_pointer(path).encode(errors="replace").decode()


def _read_all_problems(model: type[WireModel], data: object, error: ValidationError) -> Iterator[Problem]:
    """All problems; where there are more than `MAX_LISTED`, those of the first members, and their number."""
    count = error.error_count()
    if count <= MAX_LISTED:
        yield from _read_problems(model, error)
        return
    try:
        model.model_validate(_shorten(data), by_alias=True, by_name=False)
    except ValidationError as fewer:
        if fewer.error_count() <= MAX_LISTED:
            yield from _read_problems(model, fewer)
    yield Problem(
        "", "too_many", f"there are {count} errors; correct those that are listed, and send it again"
    )


def _shorten(value: object) -> object:
    """`value` with the first members of long arrays and objects, and all that a model knows."""
    if isinstance(value, list):
        return [_shorten(item) for item in value[:MAX_SUGGESTIONS]]
    if not isinstance(value, dict):
        return value
    places = enumerate(value.items())
    kept = (item for place, item in places if place < MAX_SUGGESTIONS or item[0] in KNOWN_NAMES)
    return {name: _shorten(item) for name, item in kept}


def _read_problems(model: type[WireModel], error: ValidationError) -> Iterator[Problem]:
    for index, item in enumerate(error.errors(include_url=False)):
        path = _locate(dict(item))
        if "member" in (context := item.get("ctx", {})):
            path = (*path, str(context["member"]))
        code = item["type"] if "own" in context else _name_code(item["type"])
        yield Problem(
            _write_safely(path), code, _phrase(model if index < MAX_SUGGESTIONS else None, path, dict(item))
        )


def _locate(item: Mapping[str, Any]) -> Path:
    """The path of an error; an invalid member name is located at the member, without pydantic's mark."""
    path = tuple(item["loc"])
    is_name = len(path) > 1 and path[-1] == "[key]" and path[-2] == item["input"]
    return path[:-1] if is_name else path


def _name_code(kind: str) -> str:
    if kind in CODES:
        return CODES[kind]
    if kind.endswith("_type") or kind == "int_from_float":
        return "type"
    return "range" if kind.startswith(("greater_than", "less_than")) else "invalid"


def _phrase(model: type[WireModel] | None, path: Path, item: Mapping[str, Any]) -> str:
    kind, context = item["type"], item.get("ctx", {})
    name = _name_value(path)
    if "own" in context:
        return f"{name} {item['msg']}"
    if kind == "extra_forbidden":
        return f"unknown field {name!r}{_suggest(model, path)}"
    if kind == "string_pattern_mismatch":
        hint = HINTS.get(context["pattern"], context["pattern"])
        return f"{name} {_show(item['input'])} is not well formed; {hint}"
    if kind == "literal_error":
        return f"{name} must be {context['expected']}, not {_show(item['input'])}"
    if kind == "too_long":
        return f"{name} must have at most {context['max_length']} entries, not {context['actual_length']}"
    if kind == "string_too_long":
        return f"{name} must have at most {context['max_length']} characters, not {len(item['input'])}"
    if kind in PHRASES:
        said = "" if kind in ("missing", "too_short", "string_too_short") else f", not {_show(item['input'])}"
        advice = _advise(name, item["input"]) or _name_members(kind, _model_at(model, path), item["input"])
        return f"{name} {PHRASES[kind]}{said}{advice}"
    if _name_code(kind) == "range" and context:
        return f"{name} must be {_bound(kind, context)}, not {_show(item['input'])}"
    return f"{name}: {item['msg']}"


def _advise(name: str, value: object) -> str:
    """What to write for a number that should be a text with a unit, or for an object instead of a list."""
    if name in LISTS and isinstance(value, dict):
        return f"; write it in [ and ], as a list of one {LISTS[name]}"
    if name == "retry" and type(value) in (int, bool):
        often = EXAMPLE_ATTEMPTS if type(value) is bool else value
        return f'; write [{{"errorEquals": "*", "maxAttempts": {often}}}]'
    if name == "labels" and isinstance(value, dict):
        return '; write ["NAME:VALUE"]'
    if type(value) not in (int, float):
        return ""
    if name in MOMENTS and type(value) is int and len(str(value)) in EPOCH_DIGITS:
        seconds = value / EPOCH_DIGITS[len(str(value))]
        moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return f'; moments are written as RFC 3339: this one, counted from 1970, is "{moment}"'
    if name not in DURATIONS:
        return ""
    return f'; name the unit: "{value}s", "{value}m", "{value}h" or "{value}d"'


def _name_members(kind: str, model: type[WireModel] | None, value: object) -> str:
    """What to write where an object is needed: the member that takes this word, else the first members."""
    if model is None or kind not in ("model_type", "model_attributes_type"):
        return ""
    for alias, field in ((field.alias, field) for field in model.model_fields.values()):
        if isinstance(value, str) and value in get_args(field.annotation):
            return f'; write {{"{alias}": "{value}"}}'
    names = _names(model)
    return (
        f"; its members are {', '.join(names[:SHOWN_MEMBERS])}{', …' if len(names) > SHOWN_MEMBERS else ''}"
    )


def _name_value(path: Path) -> str:
    if not path:
        return "the value"
    return (
        path[-1] or "''"
        if isinstance(path[-1], str)
        else f"{path[-2]}[{path[-1]}]"
        if path[1:]
        else f"[{path[-1]}]"
    )


def _bound(kind: str, context: Mapping[str, Any]) -> str:
    words = {"greater_than": "more than", "greater_than_equal": "at least", "less_than_equal": "at most"}
    limit = context.get("gt", context.get("ge", context.get("le")))
    return f"{words[kind]} {limit:.15g}" if limit is not None else "in range"


def _show(value: object) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _suggest(model: type[WireModel] | None, path: Path) -> str:
    found = _model_at(model, path[:-1])
    if found is Timer and path[-1] in TIMER_HINTS:
        return f"; {TIMER_HINTS[path[-1]]}"
    if found is JobDefinition and path[-1] in DEFINITION_HINTS:
        return f"; {DEFINITION_HINTS[path[-1]]}"
    known = {name.lower(): name for name in _names(found)} if found else {}
    given = str(path[-1]).lower()
    # `timeout` is near `timer`, and means `timeoutSeconds`.
    begun = [name for name in known if name.startswith(given)]
    near = begun if len(begun) == 1 else difflib.get_close_matches(given, known, n=1)
    return f"; did you mean {known[near[0]]!r}?" if near else "; remove it or check its spelling"


def _model_at(model: type[WireModel] | None, path: Path) -> type[WireModel] | None:
    """The model of the value at `path`, if the path is known."""
    for part in path:
        fields = {} if model is None else {field.alias: field for field in model.model_fields.values()}
        if part in fields:
            model = next(_models_in(fields[str(part)].annotation), None)
        elif isinstance(part, str):
            return None
    return model


def _models_in(annotation: Any) -> Iterator[type[WireModel]]:
    if isinstance(annotation, type) and issubclass(annotation, WireModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)


def _names(model: type[WireModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]
