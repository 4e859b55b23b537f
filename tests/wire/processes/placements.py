"""A service in real processes, on each placement that needs no program from elsewhere."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from tests.wire.processes.daprd import Sidecars
from tests.wire.processes.process import Process, serve


class Placed:
    """The processes that serve callers, and where."""

    def __init__(self, folder: Path, processes: Sequence[Process], urls: Sequence[str]) -> None:
        self.folder = folder
        self.processes = processes
        self.urls = urls

    async def stop(self) -> None:
        """Ends all as a supervisor does."""
        codes = [await asyncio.to_thread(process.stop) for process in self.processes]
        assert codes == [0] * len(codes)

    def said(self) -> list[str]:
        """The lines of their logs."""
        return [line for process in self.processes for line in (*process.out, *process.err)]


Starting = Callable[[Path, Mapping[str, str]], AbstractAsyncContextManager[Placed]]


@contextlib.asynccontextmanager
async def alone(folder: Path, environ: Mapping[str, str]) -> AsyncIterator[Placed]:
    """One process."""
    with serve(folder / "data", **environ) as process:
        yield await _await_urls(folder, [process])


@contextlib.asynccontextmanager
async def siblings(folder: Path, environ: Mapping[str, str]) -> AsyncIterator[Placed]:
    """Two worker processes, of which the first serves callers."""
    with serve(folder / "data", "--workers", "2", **environ) as process:
        yield await _await_urls(folder, [process])


@contextlib.asynccontextmanager
async def dapr(folder: Path, environ: Mapping[str, str]) -> AsyncIterator[Placed]:
    """Two nodes over stand-ins of their sidecars; what these keep is then a file, too."""
    async with Sidecars(("one", "two")).serving() as sidecars:
        with contextlib.ExitStack() as running:
            processes = [
                running.enter_context(serve(folder / "data", "--runtime", "dapr", **environ, **own))
                for own in sidecars.environ.values()
            ]
            yield await _await_urls(folder, processes)
        (folder / "data" / "actors").write_bytes(b"\n".join(sidecars.state.values()))


async def _await_urls(folder: Path, processes: Sequence[Process]) -> Placed:
    """A node listens before it has the others, so all are awaited together."""
    urls = await asyncio.gather(*(asyncio.to_thread(process.wait_for_url) for process in processes))
    return Placed(folder, processes, urls)


PLACEMENTS: Sequence[Starting] = (alone, siblings, dapr)
