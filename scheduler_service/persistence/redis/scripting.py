"""The scripts that run in the server: each is sent once in a server's life, then called by its digest."""

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from scheduler_service.persistence.redis.errors import Refused
from scheduler_service.persistence.redis.keys import PREFIX
from scheduler_service.persistence.redis.wire import Part, Wire

# Scripts that are made of several files, in this order.
_MADE_OF = {"write": ("common", "parts", "turns", "write")}
_FOLDER = Path(__file__).parent / "scripts"


async def run_script(wire: Wire, name: str, *arguments: Part) -> Any:
    """What the script `name` answers. Raises Unreached, Refused, Unanswered."""
    text, digest = _script(name)
    try:
        return await wire.call(b"EVALSHA", digest, b"0", PREFIX, *arguments)
    except Refused as error:
        if error.code != "NOSCRIPT":
            raise
    # The server was started anew, or its scripts were flushed: it has done nothing.
    await wire.call(b"SCRIPT", b"LOAD", text)
    return await wire.call(b"EVALSHA", digest, b"0", PREFIX, *arguments)


@cache
def _script(name: str) -> tuple[bytes, bytes]:
    text = b"\n".join((_FOLDER / f"{part}.lua").read_bytes() for part in _MADE_OF.get(name, (name,)))
    return text, hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()
