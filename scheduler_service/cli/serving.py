"""`punctual serve`, `punctual demo`, `punctual worker` and `punctual settings`."""

import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scheduler_service import how_to_install
from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.options import Config, Key, Output, Url
from scheduler_service.cli.output import Format, note, show
from scheduler_service.cli.service_connection import describe, read_address, read_ca

if TYPE_CHECKING:
    from scheduler_service.settings import LoadedSettings
if TYPE_CHECKING:
    from client_sdk import Client, Worker

Host = Annotated[str | None, typer.Option(help="Where to listen; default 127.0.0.1.")]
Port = Annotated[int | None, typer.Option(help="The port; default 8000, 0 takes a free one.")]
Data = Annotated[str | None, typer.Option(help="The data folder, or :memory: to keep nothing.")]
LogLevel = Annotated[
    str | None, typer.Option(help="The least level of the log: debug, info, warning, error.")
]
LogFormat = Annotated[str | None, typer.Option(help="json or text; default: text on a terminal, else json.")]
LogAccess = Annotated[bool | None, typer.Option("--log-access", help="A line of the log for each request.")]


def serve(
    host: Host = None,
    port: Port = None,
    data: Data = None,
    store: Annotated[
        str | None,
        typer.Option(
            help="The database server of the jobs; else files in --data. Others see a password here in ps: "
            "prefer PUNCTUAL_STORE__URL."
        ),
    ] = None,
    new_state: Annotated[
        bool,
        typer.Option("--new-state", help="Begin without jobs beside a history whose state.db is missing."),
    ] = False,
    workers: Annotated[int | None, typer.Option(help="Processes that share the jobs; default 1.")] = None,
    runtime: Annotated[str, typer.Option(help="embedded, or dapr: one node of a cluster.")] = "embedded",
    log_level: LogLevel = None,
    log_format: LogFormat = None,
    log_access: LogAccess = None,
    config: Config = None,
) -> None:
    """Run the service until SIGTERM or Ctrl-C.

    Example: punctual serve --data data --port 8000
    """
    if runtime not in ("embedded", "dapr"):
        raise CommandError(f"--runtime {runtime} is unknown; use embedded or dapr", Exit.USAGE)
    given = {
        "server.host": host,
        "server.port": port,
        "server.workers": workers,
        "store.data": data,
        "store.url": store,
        "log.level": log_level,
        "log.format": log_format,
        "log.access": log_access,
    }
    loaded = load_own(given, config)
    _check_runtime(loaded, runtime)
    if runtime == "dapr":
        _find_node_runner()(loaded)
        return
    from scheduler_service.app.lifetime import run_service

    run_service(loaded, begins_anew=new_state)


def _check_runtime(loaded: "LoadedSettings", runtime: str) -> None:
    """Raises CommandError for settings that are of the embedded runtime alone."""
    if runtime == "dapr" and loaded.settings.server.workers > 1:
        raise CommandError(
            "server.workers is for the embedded runtime; with --runtime dapr start more nodes instead",
            Exit.USAGE,
        )


def _find_node_runner() -> Callable[["LoadedSettings"], None]:
    try:
        from scheduler_service.app.node_service import run_node
    except ModuleNotFoundError as error:
        raise CommandError(
            f"--runtime dapr needs the package {error.name}; {how_to_install('service', 'dapr', 'postgres')}",
            Exit.USAGE,
        ) from error
    return run_node


def demo(
    host: Host = None,
    port: Port = None,
    data: Data = ":memory:",
    crash: Annotated[
        bool, typer.Option("--crash/--no-crash", help="Kill and restart a second service meanwhile.")
    ] = True,
    config: Config = None,
) -> None:
    """Run the service with a small target and a few jobs; prints each execution as it ends.

    Meanwhile a second service is killed in the middle of a chain and started again, on a folder that is
    removed afterwards; all on loopback.

    Example: punctual demo --port 8000
    """
    loaded = load_own({"server.host": host, "server.port": port, "store.data": data}, config)
    if loaded.settings.server.workers > 1:
        raise CommandError("the demo runs in one process; leave server.workers out", Exit.USAGE)
    from scheduler_service.demo.running import run_demo

    run_demo(loaded, shows_crash=crash)


def show_settings(config: Config = None, output: Output = Format.TABLE) -> None:
    """Show each effective setting and where it comes from.

    Example: punctual settings -o json
    """
    from scheduler_service.app.egress import certificates_of
    from scheduler_service.settings import SettingsError

    loaded = read_settings({}, config)
    try:
        certificates_of(loaded, lambda event, /, **keys: None)
    except SettingsError as error:
        raise CommandError(str(error), Exit.USAGE) from error
    rows = [{"name": name, "value": value, "source": source} for name, value, source in loaded.effective()]
    show(rows, output, ("name", "value", "source"))


def read_settings(arguments: Mapping[str, object], config: Path | None) -> "LoadedSettings":
    """The settings of a command that has no log. Raises CommandError."""
    loaded = load_own(arguments, config)
    if loaded.passed_over:
        note(f"passed over as an orchestrator's, no settings: {', '.join(loaded.passed_over)}")
    return loaded


def load_own(arguments: Mapping[str, object], config: Path | None) -> "LoadedSettings":
    """The settings of this process. Raises CommandError."""
    from scheduler_service.settings import SettingsError, load_settings
    from scheduler_service.settings.sources import read_env_file

    given = {name: value for name, value in arguments.items() if value is not None}
    named = config or (Path(os.environ["PUNCTUAL_CONFIG"]) if os.environ.get("PUNCTUAL_CONFIG") else None)
    try:
        loaded = load_settings(given, os.environ, named)
        if loaded.settings.env_file is not None:
            read_env_file(Path(loaded.settings.env_file))
        return loaded
    except SettingsError as error:
        raise CommandError(str(error), Exit.USAGE) from error


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
