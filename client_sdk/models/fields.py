"""The value types of the wire models; strict, so that no value is converted unexpectedly."""

import re
from typing import Annotated, Any, ClassVar, Literal, LiteralString

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from client_sdk.id_patterns import INSTANCE_ID as INSTANCE_ID
from client_sdk.id_patterns import JOB_ID as JOB_ID

LARGEST = 1_000_000_000
"""The bound of every number on the wire: 31 years in seconds, and far from where integers overflow."""

JOB_ID_FORM = re.compile(JOB_ID[1:-1])
CALENDAR = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
METHOD = r"^[A-Za-z][A-Za-z0-9_-]{0,31}$"
COUNTRY = r"^[A-Z]{2}(-[A-Z0-9]{1,4})?$"
LABEL_SCOPE = r"^[^:\x00-\x1f]{1,128}:[^\x00-\x1f]{0,128}$"
TENANT = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"


def _write_alias(name: str) -> str:
    return {"asynchronous": "async", "from_": "from", "as_": "as"}.get(name) or to_camel(name)


class WireModel(BaseModel):
    """The root of all models of the wire: camelCase, frozen, strict, unknown members refused.

    A member that is `null` counts as absent, unless the model names it in `nullable`.
    """

    nullable: ClassVar[frozenset[str]] = frozenset({"body"})

    model_config = ConfigDict(
        alias_generator=_write_alias,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, data: Any) -> Any:
        if not isinstance(data, dict) or None not in data.values():
            return data
        known = {field.alias: name for name, field in cls.model_fields.items()}
        return {
            key: value for key, value in data.items() if value is not None or _keeps_null(cls, known, key)
        }


def _keeps_null(model: type[WireModel], known: dict[str | None, str], key: str) -> bool:
    return key not in known or known[key] in model.nullable


def refuse(code: LiteralString, message: str, **context: str) -> PydanticCustomError:
    """A validation error; `message` follows the member's name and is shown unchanged."""
    return PydanticCustomError(code, "{text}", {"text": message, "own": True, **context})


def _check_text(value: str) -> str:
    if "\x00" in value:
        raise refuse("nul", "must not contain the character U+0000; remove it")
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise refuse("surrogate", "has half of a surrogate pair; send whole characters")
    return value


def read_integer(value: object) -> object:
    """A number without a fraction as an integer, as JSON Schema has it: 3.0, 1e2. Anything else as it is."""
    return int(value) if type(value) is float and value.is_integer() else value


def _refuse_inexact(value: object) -> object:
    value = read_integer(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise refuse("type", "must be 0 or 1")
    return value


def _read_flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if type(value) in (int, float) and value in (0, 1):
        return value == 1
    raise refuse("type", "must be 0, 1, true or false")


def _refuse_empty(value: str) -> str:
    if not value.strip():
        raise refuse("empty", "must not be empty")
    return value


_UNSHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that turn the direction of what follows."""
_UNSHOWN_IN_LINES = re.compile(_UNSHOWN.pattern.replace("[", r"(?![\t\r\n])["))


def find_unshown(value: str, *, lines: bool = False) -> str | None:
    """What is wrong with a text that people are shown, of one line or of several; None: nothing."""
    found = (_UNSHOWN_IN_LINES if lines else _UNSHOWN).search(value)
    return None if found is None else f"must not contain the character U+{ord(found[0]):04X}; remove it"


def _check_shown(value: str, *, lines: bool = False) -> str:
    if (wrong := find_unshown(_check_text(value), lines=lines)) is not None:
        raise refuse("control", wrong)
    return value


def _check_lines(value: str) -> str:
    return _check_shown(value, lines=True)


Text = Annotated[str, AfterValidator(_check_text)]
PlainText = Annotated[str, AfterValidator(_check_shown)]
"""Names that people are shown: a line of a list or of the audit reads as what it is."""
LONGEST_TAG, MOST_TAGS = 128, 100
Tag = Annotated[
    str,
    Field(min_length=1, max_length=LONGEST_TAG),
    AfterValidator(_check_shown),
    AfterValidator(_refuse_empty),
]
Tags = Annotated[list[Tag], Field(max_length=MOST_TAGS)]
FilledText = Annotated[str, AfterValidator(_check_text), AfterValidator(_refuse_empty), Field(min_length=1)]
FilledName = Annotated[str, AfterValidator(_check_shown), AfterValidator(_refuse_empty), Field(min_length=1)]
# Registrations are kept in memory, and lists show them.
LONGEST_ADDRESS, LONGEST_DESCRIPTION = 2_048, 1_024
Address = Annotated[
    str,
    Field(min_length=1, max_length=LONGEST_ADDRESS),
    AfterValidator(_check_text),
    AfterValidator(_refuse_empty),
]
Lines = Annotated[str, AfterValidator(_check_lines)]
Description = Annotated[str, Field(max_length=LONGEST_DESCRIPTION), AfterValidator(_check_lines)]
JobId = Annotated[str, Field(pattern=JOB_ID)]
CalendarName = Annotated[str, Field(pattern=CALENDAR)]
InstanceId = Annotated[str, Field(pattern=INSTANCE_ID)]
Flag = Annotated[bool, BeforeValidator(_read_flag, json_schema_input_type=Literal[0, 1] | bool)]
Bit = Annotated[Literal[0, 1], BeforeValidator(_refuse_inexact, json_schema_input_type=Literal[0, 1])]
Integer = Annotated[int, BeforeValidator(read_integer)]
Count = Annotated[Integer, Field(ge=0, le=LARGEST)]
PositiveCount = Annotated[Integer, Field(ge=1, le=LARGEST)]
Seconds = Annotated[float, Field(ge=0, le=LARGEST)]
PositiveSeconds = Annotated[float, Field(gt=0, le=LARGEST)]

LONGEST_LEAD = 3_600
"""In seconds. All firings within the lead are sent at once: a longer one would send too many."""
LeadSeconds = Annotated[float, Field(ge=0, le=LONGEST_LEAD)]


def _read_method(value: str) -> str:
    method = value.upper()
    if method == "CONNECT":
        raise refuse("choice", "must not be CONNECT, which opens a tunnel; use another one")
    return method


Method = Annotated[str, Field(pattern=METHOD), AfterValidator(_read_method)]


def _check_codes(value: object) -> str | list[str]:
    if isinstance(value, str):
        return _check_text(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return [_check_text(item) for item in value]
    raise refuse("type", 'must be a string or a list of strings, as in "500"')


Codes = Annotated[str | list[str], PlainValidator(_check_codes, json_schema_input_type=str | list[str])]

JitterKind = Literal["none", "full"]
"""How a retry spreads its wait; `scheduler_service.timing.backoff` computes each kind."""
