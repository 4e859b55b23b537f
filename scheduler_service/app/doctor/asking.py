"""Asks programs that may be others than the settings say: an answer is read up to a limit."""

from collections.abc import Mapping

import httpx

from client_sdk.decoding import CODINGS, read_decoded, with_body

LARGEST_ANSWER = 1 << 20
"""Nothing that is asked has more."""


async def ask(
    client: httpx.AsyncClient, path: str, *, headers: Mapping[str, str] | None = None
) -> httpx.Response:
    """The answer to a GET. Raises httpx.HTTPError, and ValueError for an answer of more than 1 MiB."""
    own = {"Accept-Encoding": CODINGS, **(headers or {})}
    body = bytearray()
    async with client.stream("GET", path, headers=own) as answer:
        async for piece in read_decoded(answer):
            body += piece
            if len(body) > LARGEST_ANSWER:
                raise ValueError(f"the answer to {path} has more than {LARGEST_ANSWER >> 20} MiB")
    return with_body(answer, bytes(body))
