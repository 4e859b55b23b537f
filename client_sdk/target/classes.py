"""Jobs as classes: each execution has an object of its own, made by what the application injects."""

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import FunctionType, MethodType
from typing import Any

from client_sdk.errors import DeclarationError

Provide = Callable[[type[Any]], Any]
"""Makes the object of a class: returns it, an awaitable of it, or a context manager that yields it."""
ENTRIES = ("run", "__call__")
VARIOUS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def find_entry(declared: type[Any]) -> str:
    """The method that does the work: `run`, else `__call__`. Raises DeclarationError if there is neither."""
    for name in ENTRIES:
        if any(name in vars(base) for base in declared.__mro__):
            return name
    raise DeclarationError(f"{declared.__qualname__}: a class is a job by its method run; write one")


def signature_source(declared: type[Any], entry: str) -> Callable[..., Any]:
    """A function with the parameters of the method `entry`, without `self`."""
    method: Any = getattr(declared, entry)
    return MethodType(method, object()) if isinstance(method, FunctionType) else method


def check_constructor(declared: type[Any]) -> None:
    """Raises DeclarationError if objects of the class cannot be made without arguments."""
    needed = [
        name
        for name, one in inspect.signature(declared).parameters.items()
        if one.default is one.empty and one.kind not in VARIOUS
    ]
    if needed:
        text = f"its constructor takes {', '.join(needed)}, and nothing provides that"
        raise DeclarationError(f"{declared.__qualname__}: {text}; give provide=… beside the jobs")


@asynccontextmanager
async def provided(declared: type[Any], provide: Provide | None) -> AsyncIterator[Any]:
    """The object for one execution. Raises TypeError if `provide` returns something else."""
    made = declared() if provide is None else provide(declared)
    if inspect.isawaitable(made) and not isinstance(made, declared):
        made = await made
    if isinstance(made, declared):
        yield made
    elif hasattr(made, "__aenter__"):
        async with made as one:
            yield one
    elif hasattr(made, "__enter__"):
        with made as one:
            yield one
    else:
        raise TypeError(f"provide returned {type(made).__name__} for {declared.__qualname__}")
