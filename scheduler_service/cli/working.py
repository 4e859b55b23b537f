"""`punctual worker`: runs a worker that a module declares."""

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scheduler_service.cli.connection import read_address, read_ca
from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.options import Key, Url
from scheduler_service.cli.wording import describe

if TYPE_CHECKING:
    from client_sdk import Client, Worker

ENDINGS = ("SIGTERM", "SIGINT")


def work(
    place: Annotated[str, typer.Argument(metavar="MODULE:NAME", help="The Worker to run.")],
    url: Url = None,
    key: Key = None,
    concurrency: Annotated[int | None, typer.Option(help="Parts at a time; else as declared.", min=1)] = None,
) -> None:
    """Claim parts from a pull queue and do them until SIGTERM or Ctrl-C; running parts may finish.

    Example: punctual worker examples.pull_worker:worker --url http://127.0.0.1:8000
    """
    import asyncio
    import logging

    from client_sdk import Client, Problem, SdkError

    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    worker = load_worker(place)
    if concurrency is not None:
        worker.concurrency = concurrency
    try:
        url, key = read_address(url, key)
        client = Client(url, key=key, ca=read_ca())
    except ValueError as error:
        raise CommandError(str(error), Exit.USAGE) from error
    try:
        asyncio.run(_run(worker, client))
    except SdkError as error:
        text = describe(error) if isinstance(error, Problem) else str(error)
        raise CommandError(text) from error


def load_worker(place: str) -> "Worker":
    """The worker `MODULE:NAME`; also finds modules in the working folder. Raises CommandError."""
    from client_sdk import Worker

    module_name, colon, name = place.partition(":")
    if not (module_name and colon and name):
        raise CommandError(f"{place!r} is not MODULE:NAME, as in examples.pull_worker:worker", Exit.USAGE)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(import_module(module_name), name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise CommandError(
                f"{module_name} needs {error.name}, which is not installed", Exit.USAGE
            ) from error
        raise CommandError(f"there is no module {error.name} in {here} or installed", Exit.USAGE) from error
    except AttributeError as error:
        raise CommandError(f"{module_name} has no {name}", Exit.USAGE) from error
    if not isinstance(found, Worker):
        raise CommandError(f"{place} is a {type(found).__name__}, not a client_sdk.Worker", Exit.USAGE)
    return found


async def _run(worker: "Worker", client: "Client") -> None:
    import asyncio
    import signal

    loop = asyncio.get_running_loop()
    for name in ENDINGS:
        loop.add_signal_handler(signal.Signals[name], worker.stop)
    print(f"{worker.instance_id} claims from {worker.queue} of {client.url}", file=sys.stderr, flush=True)
    async with client:
        await worker.run(client)
