"""A way through TCP that a test closes: what is sent meanwhile arrives late, or its answer never does."""

import asyncio
from contextlib import suppress

from scheduler_service.persistence.contexts.redis_address import Address


class Valve:
    """Passes connections on to a port. Each `hold` is about those that are open; later ones pass."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._pipes: list[Pipe] = []

    async def open(self) -> Address:
        """The address under which the server is reached through it."""
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        return Address("127.0.0.1", self._server.sockets[0].getsockname()[1], 0, is_encrypted=False)

    def hold_requests(self) -> None:
        """What is sent over the open connections waits."""
        for pipe in self._pipes:
            pipe.forth.clear()

    def hold_answers(self) -> None:
        """What the server answers over the open connections waits."""
        for pipe in self._pipes:
            pipe.back.clear()

    def release(self) -> None:
        """What waited goes on, however late."""
        for pipe in self._pipes:
            pipe.forth.set()
            pipe.back.set()

    def add(self, data: bytes) -> None:
        """Sends `data` over the open connections as if the server had; what waits comes after it."""
        for pipe in self._pipes:
            if not pipe.is_over:
                pipe.client.write(data)

    def answers(self) -> list[bytes]:
        """What the server sent last over each connection, also if it was not delivered."""
        return [pipe.last for pipe in self._pipes]

    async def close(self) -> None:
        """Ends everything."""
        self._server.close()
        self.release()
        for pipe in self._pipes:
            pipe.end()
        await self._server.wait_closed()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, here = await asyncio.open_connection("127.0.0.1", self._target)
        pipe = Pipe(writer, here)
        self._pipes.append(pipe)
        await asyncio.gather(pipe.pass_on(reader, here, pipe.forth), pipe.pass_on(there, writer, pipe.back))
        pipe.end()


class Pipe:
    """One connection."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self._ends = (client, server)
        self.client = client
        self.is_over = False
        self.forth, self.back = asyncio.Event(), asyncio.Event()
        self.last = b""
        self.forth.set()
        self.back.set()

    async def pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event
    ) -> None:
        """Until one end closes; what was read before is passed on all the same."""
        with suppress(OSError):
            while data := await reader.read(65_536):
                if gate is self.back:
                    self.last = data
                await gate.wait()
                writer.write(data)
            await gate.wait()
            self.is_over = True
            writer.write_eof()

    def end(self) -> None:
        """Closes both ends."""
        self.is_over = True
        for end in self._ends:
            end.close()
