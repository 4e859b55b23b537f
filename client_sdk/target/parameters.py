"""A function's parameters as those of a job: read from a call's body, described as JSON Schema."""

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo

from client_sdk.errors import DeclarationError, Flaw
from client_sdk.models import write_pointer
from client_sdk.target.execution import Execution

DEPENDENCIES = ("fastapi.params", "fast_depends")
"""Modules whose objects, as a default or in Annotated, are resolved by another framework, and not here."""
READ_FLAWS, SHOWN_FLAWS = 1_000, 50
"""Of more flaws pydantic makes gigabytes: they are only counted."""
NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class WrongParameters(Exception):
    """The body of a call does not fit the function; `flaws` list all errors."""

    def __init__(self, flaws: tuple[Flaw, ...]) -> None:
        super().__init__("; ".join(f"{flaw.pointer or '/'}: {flaw.message}" for flaw in flaws))
        self.flaws = flaws


class Parameters:
    """The parameters of `function`, of the job `name`, validated by pydantic according to its annotations.

    A parameter of type `Execution` is filled in. Raises DeclarationError for positional-only parameters,
    `*args` and annotations that cannot be resolved.
    """

    def __init__(self, function: Callable[..., Any], name: str | None = None) -> None:
        signature = _read_signature(function)
        self._execution = [name for name, one in signature.items() if one.annotation is Execution]
        self._open = next((name for name, one in signature.items() if one.kind is one.VAR_KEYWORD), None)
        named = {name: one for name, one in signature.items() if one.kind in NAMED}
        self._names = [name for name in named if name not in self._execution]
        fields: dict[str, Any] = {
            _field(index): (_annotation(named[name]), _default(named[name]))
            for index, name in enumerate(self._names)
        }
        config = ConfigDict(extra="allow" if self._open else "forbid", arbitrary_types_allowed=False)
        for one in named.values():
            _refuse_dependency(function, one)
        try:
            self._model = create_model(name or function.__name__, __config__=config, **fields)
        except (PydanticUserError, TypeError) as error:
            raise _explain(function, [named[name] for name in self._names], error) from error
        self.required = [name for name in self._names if named[name].default is inspect.Parameter.empty]

    def read(self, body: bytes) -> dict[str, Any]:
        """The arguments in `body`, a JSON object or empty. Raises WrongParameters."""
        return self._read(lambda: self._model.model_validate_json(body.strip() or b"{}"))

    def take(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments in decoded JSON values. Raises WrongParameters."""
        return self._read(lambda: self._model.model_validate(dict(values)))

    def fill(self, arguments: Mapping[str, Any], execution: Execution) -> dict[str, Any]:
        """The arguments, with the execution for parameters of that type."""
        return {**arguments, **dict.fromkeys(self._execution, execution)}

    @property
    def schema(self) -> dict[str, Any]:
        """The parameters as a JSON Schema, for `paramsSchema` (SPEC section 2)."""
        described: dict[str, Any] = self._model.model_json_schema(by_alias=True)
        described.pop("description", None)
        return described

    def _read(self, check: Callable[[], Any]) -> dict[str, Any]:
        try:
            read = check()
        except ValidationError as error:
            raise WrongParameters(tuple(_read_flaws(error))) from None
        known: dict[str, Any] = {name: getattr(read, _field(index)) for index, name in enumerate(self._names)}
        further: dict[str, Any] = read.model_extra or {}
        return known | further


def write_data(value: Any) -> Any:
    """A function's result as JSON values, as pydantic writes them. Raises ValueError for NaN and the like."""
    data = _ANY.dump_python(value, mode="json")
    try:
        json.dumps(data, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"this is no JSON: {error}") from error
    return data


_ANY: TypeAdapter[Any] = TypeAdapter(Any, config=ConfigDict(ser_json_inf_nan="constants"))


def _read_signature(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        signature = inspect.signature(function, eval_str=True).parameters
    except (NameError, TypeError, ValueError, SyntaxError) as error:
        name = getattr(function, "__qualname__", repr(function))
        raise DeclarationError(f"{name}: its annotations cannot be read: {error}") from error
    for name, one in signature.items():
        if one.kind in (one.POSITIONAL_ONLY, one.VAR_POSITIONAL):
            raise DeclarationError(
                f"{function.__qualname__}: parameter {name} cannot be given by name; remove '/' or '*'"
            )
    return signature


def _refuse_dependency(function: Callable[..., Any], one: inspect.Parameter) -> None:
    """Raises DeclarationError: nothing here resolves it, and a caller could give it a value."""
    described = getattr(one.annotation, "__metadata__", ())
    # Query(ge=1) and the like in Annotated are constraints that pydantic reads.
    for marker in (one.default, *(item for item in described if not isinstance(item, FieldInfo))):
        if type(marker).__module__.startswith(DEPENDENCIES):
            kind = type(marker).__name__
            what = f"{function.__qualname__}: parameter {one.name} is {kind}(…), which nothing resolves here"
            raise DeclarationError(
                f"{what}: dependencies come by a class and provide=…, a default is a value"
            )


def _explain(
    function: Callable[..., Any], parameters: Iterable[inspect.Parameter], error: Exception
) -> DeclarationError:
    """The parameter that pydantic cannot read, in a sentence; pydantic's own paragraphs are its cause."""
    for one in parameters:
        try:
            TypeAdapter(_annotation(one))
        except (PydanticUserError, TypeError):
            kind = inspect.formatannotation(one.annotation)
            what = f"parameter {one.name} of type {kind} cannot be read from JSON"
            remedy = "make it a dataclass or a pydantic model; what the application injects comes by a class"
            return DeclarationError(f"{function.__qualname__}: {what}: {remedy} and provide=…")
    return DeclarationError(f"{function.__qualname__}: a parameter cannot be read: {error}")


def _field(index: int) -> str:
    """The model's own name of a parameter, so that none collides with a name of pydantic."""
    return f"p{index}"


def _annotation(parameter: inspect.Parameter) -> Any:
    return Any if parameter.annotation is parameter.empty else parameter.annotation


def _default(parameter: inspect.Parameter) -> Any:
    if parameter.default is parameter.empty:
        return Field(alias=parameter.name)
    return Field(default=parameter.default, alias=parameter.name)


def _read_flaws(error: ValidationError) -> Iterator[Flaw]:
    """The first of them, and how many more there are: a caller may send a million."""
    count = error.error_count()
    if count > READ_FLAWS:
        yield Flaw("", "too_many", f"{count} values are wrong or not known; compare them with the parameters")
        return
    for item in error.errors(include_url=False, include_input=False)[:SHOWN_FLAWS]:
        yield _read_flaw(dict(item))
    if count > SHOWN_FLAWS:
        yield Flaw("", "too_many", f"and {count - SHOWN_FLAWS} more")


def _read_flaw(item: dict[str, Any]) -> Flaw:
    return Flaw(write_pointer(item["loc"]), str(item["type"]), str(item["msg"]))
