"""Iterates over lists, a page at a time (SPEC section 10)."""

from collections.abc import AsyncIterator
from typing import Any, TypeVar

from pydantic import BaseModel

from client_sdk.client.connection import Connection
from client_sdk.models.answers import Listing

Item = TypeVar("Item", bound=BaseModel)
PAGE = 100


async def iterate(
    connection: Connection, model: type[Item], path: str, *, page: int = PAGE, **query: Any
) -> AsyncIterator[Item]:
    """All items of the list, fetched `page` at a time as needed. Raises SdkError."""
    listing: type[Listing[Any]] = Listing[model]  # type: ignore[valid-type]
    cursor: str | None = None
    while True:
        found = await connection.read(listing, path, limit=page, cursor=cursor, **query)
        for item in found.items:
            yield item
        cursor = found.next_cursor
        if cursor is None:
            return
