"""Questions to programs that may be others than they should be: an answer is read up to a limit."""

from collections.abc import Mapping

import httpx

from client_sdk.decoding import CODINGS, read_decoded

LARGEST_ANSWER = 1 << 20
"""Nothing that is asked has more."""


async def ask(
    client: httpx.AsyncClient, path: str, *, headers: Mapping[str, str] | None = None
) -> httpx.Response:
    """The answer to a GET. Raises httpx.HTTPError, ValueError: it is larger than any that is expected."""
    own = {"Accept-Encoding": CODINGS, **(headers or {})}
    body = bytearray()
    async with client.stream("GET", path, headers=own) as answer:
        async for piece in read_decoded(answer):
            body += piece
            if len(body) > LARGEST_ANSWER:
                raise ValueError(f"the answer to {path} has more than {LARGEST_ANSWER >> 20} MiB")
    kept = [(name, value) for name, value in answer.headers.multi_items() if name not in _OF_THE_CODING]
    return httpx.Response(answer.status_code, headers=kept, content=bytes(body))


_OF_THE_CODING = frozenset({"content-encoding", "content-length", "transfer-encoding"})
