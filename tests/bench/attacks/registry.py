"""The attacks by name, and what each needs."""

import importlib
import pkgutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple

import tests.bench.attacks as package
from tests.attack.service import Limits, Service
from tests.unit.transport.servers import Stage


class Scene(NamedTuple):
    """What an attack acts on: the service, and where it may open hostile targets."""

    service: Service
    stage: Stage


class Attack(NamedTuple):
    """`begin` is entered when it begins and left when it ends; the service has `limits` and `settings`."""

    begin: Callable[[Scene], AbstractAsyncContextManager[None]]
    says: str
    limits: Limits
    settings: Mapping[str, Any]


ATTACKS: dict[str, Attack] = {}


def attack(
    name: str, *, limits: Limits | None = None, settings: Mapping[str, Any] | None = None
) -> Callable[[Callable[[Scene], AsyncIterator[None]]], Callable[[Scene], AsyncIterator[None]]]:
    """Registers an async generator that yields once, while it goes on; its docstring says what it is."""

    def register(begin: Callable[[Scene], AsyncIterator[None]]) -> Callable[[Scene], AsyncIterator[None]]:
        assert name not in ATTACKS, name
        says = (begin.__doc__ or "").partition("\n")[0]
        ATTACKS[name] = Attack(asynccontextmanager(begin), says, limits or {}, settings or {})
        return begin

    return register


def load() -> dict[str, Attack]:
    """All attacks of this package."""
    for module in pkgutil.iter_modules(package.__path__):
        if module.name != "__main__":
            importlib.import_module(f"{package.__name__}.{module.name}")
    return ATTACKS
