"""Where a service's state lies, and how a test reads it while the service is dead."""

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec

from scheduler_service.persistence.contexts.external_contexts import ApartStore, ContextKeeper
from scheduler_service.persistence.contexts.redis import RedisContexts
from scheduler_service.persistence.contexts.redis_address import Address
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.state import OpenStore


class Home(Protocol):
    """What a dead service left behind: `settings` lead the next one to it, `folder` has its files."""

    @property
    def folder(self) -> Path:
        """The data folder."""

    @property
    def settings(self) -> dict[str, Any]:
        """What a service is told to find it."""

    def open(self) -> Any:
        """A context in which the state can be read; nothing of it is changed."""


class SqliteHome(msgspec.Struct, frozen=True):
    """In the folder. `further`: more settings of the service."""

    folder: Path
    further: dict[str, Any] = {}

    @property
    def settings(self) -> dict[str, Any]:
        """Nothing more than `further`."""
        return self.further

    @asynccontextmanager
    async def open(self) -> AsyncIterator[SqliteStateStore]:
        """Read from a copy: opening a file changes it."""
        with tempfile.TemporaryDirectory() as copy:
            shutil.copytree(self.folder, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("history*"))
            store = await SqliteStateStore.open(folder=Path(copy))
            try:
                yield store
            finally:
                await store.close()


class ContextsHome(msgspec.Struct, frozen=True):
    """In the folder, and contexts of qos 1 in a database. `further`: more settings of the service."""

    folder: Path
    address: Address
    further: dict[str, Any] = {}

    @property
    def settings(self) -> dict[str, Any]:
        """The address."""
        return {"contexts.url": str(self.address)} | self.further

    @asynccontextmanager
    async def open(self) -> AsyncIterator[OpenStore]:
        """Rows from a copy, contexts where they are; nothing is removed."""
        async with SqliteHome(self.folder).open() as rows:
            contexts = RedisContexts(address=self.address, on_trouble=lambda _: None)
            keeper = ContextKeeper(contexts=contexts, log=lambda *_, **__: None)
            try:
                yield ApartStore(
                    store=rows,
                    contexts=contexts,
                    keeper=keeper,
                    is_own=lambda _: False,
                    sweep_after=None,
                )
            finally:
                await contexts.close()
