"""One connection to the server, opened when needed: commands, and the scripts that run in the server."""

import asyncio
import contextlib
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from redis import exceptions
from redis.asyncio.connection import Connection, SSLConnection

from scheduler_service.domain.leases import CLAIMED, DOWNTIME_GRACE_MS, LOST
from scheduler_service.persistence.contexts.address import Address
from scheduler_service.persistence.redis.encoding import PREFIX
from scheduler_service.persistence.redis.errors import Refused, Unanswered, Unreached, Unsent

TIMEOUT_SECONDS = 2.0
"""For an answer, and for a connection. After it a write waits as long again, to learn what became of it."""
UNASKED = "the server sent an answer that nobody asked for"
SILENT = "the server did not answer the command before this one, which was not sent"
LEFT = "this process ends, and waits for the server no longer"
# Errors that the server returned, some of which the library counts as errors of the connection.
_ANSWERS = (
    exceptions.ResponseError,
    exceptions.BusyLoadingError,
    exceptions.AuthenticationError,
    exceptions.AuthorizationError,
)
# RuntimeError: uvloop raises it for a connection that has just been closed, and the library passes it on.
_LOST = (exceptions.RedisError, OSError, RuntimeError)
# Nothing came in time.
_SILENCE = (TimeoutError, exceptions.TimeoutError)
# The library removes the first word, which is the code, from these.
_CODES: dict[type[Exception], str] = {
    exceptions.BusyLoadingError: "LOADING",
    exceptions.NoScriptError: "NOSCRIPT",
    exceptions.OutOfMemoryError: "OOM",
    exceptions.ReadOnlyError: "READONLY",
    exceptions.NoPermissionError: "NOPERM",
    exceptions.AuthenticationError: "NOAUTH",
}
# Scripts that are made of several files, in this order.
_MADE_OF = {"write": ("common", "parts", "turns", "write"), "damage": ("common", "parts", "turns", "damage")}
# What scripts have from the domain: `@NAME@` in their text is written as the value when they are loaded.
_FROM_THE_DOMAIN: dict[str, str | int] = {
    "CLAIMED": CLAIMED,
    "LOST": LOST,
    "DOWNTIME_GRACE_MS": DOWNTIME_GRACE_MS,
}
_FOLDER = Path(__file__).parent / "scripts"
Part = bytes | str | int
OnUnasked = Callable[[], None]


def _ignore() -> None:
    return


class ServerConnection:
    """Sends commands to the database of `address`, one at a time, in the order of the calls.

    `timeout`: seconds for a connection, and for an answer. Commands that wait for their turn while the server
    lets that time pass are not sent, now or later: so no caller waits for the timeouts of others.

    Answers have no names: one too many, and each is taken for that of the command after its own. So each
    command is followed by a number that the server says back. Where it does not, the connection ends, the
    call is Unanswered, and `on_unasked` is called.
    """

    def __init__(
        self, *, address: Address, timeout: float = TIMEOUT_SECONDS, on_unasked: OnUnasked = _ignore
    ) -> None:
        self._address = address
        self._timeout = timeout
        self._on_unasked = on_unasked
        self._number = 0
        self._silences = 0
        self._turn = asyncio.Lock()
        self._limit: asyncio.Timeout | None = None  # of the call that goes on
        self._is_left = False
        self._connection: Connection | None = None

    async def run(self, script: str, *arguments: Part) -> Any:
        """What the script returns; it is sent once in a server's life, then called by its digest.

        Raises Unreached, Refused, Unanswered.
        """
        text, digest = _read_script(script)
        try:
            return await self.call(b"EVALSHA", digest, b"0", PREFIX, *arguments)
        except Refused as error:
            if error.code != "NOSCRIPT":
                raise
        # The server was restarted, or its scripts were flushed: it has done nothing.
        await self.call(b"SCRIPT", b"LOAD", text)
        return await self.call(b"EVALSHA", digest, b"0", PREFIX, *arguments)

    async def call(self, *parts: Part) -> Any:
        """The server's answer, texts as bytes. Raises Unreached, Refused, Unanswered."""
        silences = self._silences
        async with self._turn:
            if self._is_left:
                raise Unreached(LEFT)
            if self._silences != silences:
                raise Unsent(SILENT)
            try:
                async with asyncio.timeout(None) as self._limit:
                    return await self._call(parts)
            except (Unanswered, Unreached) as error:
                if isinstance(error.__cause__, _SILENCE):
                    self._silences += 1
                raise
            except TimeoutError as error:
                raise Unanswered(LEFT) from error
            finally:
                self._limit = None

    def leave(self) -> None:
        """Waits for the server no longer: the call that goes on is Unanswered, all later ones Unreached."""
        if not self._is_left and self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time())
        self._is_left = True

    async def close(self) -> None:
        """Ends the connection and waits until it is gone; the next call opens another one."""
        async with self._turn:
            connection, self._connection = self._connection, None
            if connection is not None:
                with contextlib.suppress(*_LOST):
                    await connection.disconnect()

    async def _call(self, parts: tuple[Part, ...]) -> Any:
        connection = await self._connect()
        self._number += 1
        mark = b"%d" % self._number
        try:
            # The library's own packing takes 1.7 us for each part, this one 0.2.
            command = [pack(parts), pack((b"ECHO", mark))]
            await connection.send_packed_command(command, check_health=False)
            answer, echo = await _read(connection), await _read(connection)
        except _LOST as error:
            await self._drop()
            raise Unanswered(str(error)) from error
        except BaseException:
            await self._drop()  # an answer still on its way would be taken for the next one
            raise
        if isinstance(answer, Refused) and isinstance(echo, Refused):
            raise answer  # by a server that refuses all
        if echo != mark:
            await self._drop()
            if isinstance(echo, Refused):
                raise Unanswered(str(echo)) from echo
            self._on_unasked()
            raise Unanswered(UNASKED)
        if isinstance(answer, Refused):
            raise answer
        return answer

    async def _connect(self) -> Connection:
        if self._connection is not None and self._connection.is_connected:
            return self._connection
        await self._drop()
        connection = _make(self._address, self._timeout)
        try:
            async with asyncio.timeout(self._timeout):  # all that is said before the first command
                await connection.connect()  # type: ignore[no-untyped-call]
        except BaseException as error:
            await connection.disconnect(nowait=True)  # also where this task is cancelled
            if isinstance(error, (*_LOST, UnicodeError)):
                raise Unreached(str(error)) from error
            raise
        self._connection = connection
        return connection

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)


def pack(parts: tuple[Part, ...]) -> bytes:
    """A command in the server's protocol."""
    texts = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
    packed = [b"*%d\r\n" % len(texts)]
    packed += [b"$%d\r\n%b\r\n" % (len(text), text) for text in texts]
    return b"".join(packed)


async def _read(connection: Connection) -> Any:
    """The next answer, an error too."""
    try:
        return await connection.read_response(disable_decoding=True, disconnect_on_error=False)
    except _ANSWERS as error:
        return _refused(error)


def _make(address: Address, timeout: float) -> Connection:
    kind = SSLConnection if address.is_encrypted else Connection
    return kind(
        host=address.host,
        port=address.port,
        db=address.database,
        username=address.user,
        password=address.password,
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        protocol=2,
        client_name="punctual",
    )


def _refused(error: Exception) -> Refused:
    code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), None)
    return Refused(code or str(error).partition(" ")[0], str(error))


@cache
def _read_script(name: str) -> tuple[bytes, bytes]:
    text = "\n".join((_FOLDER / f"{part}.lua").read_text("utf-8") for part in _MADE_OF.get(name, (name,)))
    for word, value in _FROM_THE_DOMAIN.items():
        text = text.replace(f"@{word}@", str(value))
    packed = text.encode()
    return packed, hashlib.sha1(packed, usedforsecurity=False).hexdigest().encode()
