"""`punctual doctor`: what is wrong with a folder, a machine, a service or what it stands on."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scheduler_service.cli.connection import read_ca
from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.options import Config, Output
from scheduler_service.cli.output import Format, show, text_of
from scheduler_service.cli.serving import Data, Host, Port, read_settings

if TYPE_CHECKING:
    from scheduler_service.maintenance.findings import DoctorFinding

COLOURS = {"ok": "green", "warning": "yellow", "failed": "red"}


def examine(
    host: Host = None,
    port: Port = None,
    data: Data = None,
    runtime: Annotated[str, typer.Option(help="As for serve: embedded or dapr.")] = "embedded",
    config: Config = None,
    url: Annotated[str | None, typer.Option(help="A service to ask; else PUNCTUAL_URL, else --port.")] = None,
    key: Annotated[str | None, typer.Option(help="Its key; else PUNCTUAL_KEY, else server.key.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """Examine what a service needs: folder, clock, ports, limits, servers, versions. Changes nothing.

    Takes the settings of the service; each line is ok, warning or failed, with what to do. Exit code 1 where
    one has failed.

    Example: punctual doctor --data data --port 0
    """
    if runtime not in ("embedded", "dapr"):
        raise CommandError(f"--runtime {runtime} is unknown; use embedded or dapr", Exit.USAGE)
    given = {"server.host": host, "server.port": port, "store.data": data}
    loaded = read_settings(given, config)
    import asyncio

    from scheduler_service.app.store_opening import data_folder
    from scheduler_service.maintenance import doctor
    from scheduler_service.maintenance.findings import ExaminedService, worst_of

    named = config or (Path(os.environ["PUNCTUAL_CONFIG"]) if os.environ.get("PUNCTUAL_CONFIG") else None)
    subject = ExaminedService(
        loaded=loaded,
        folder=data_folder(loaded.settings),
        config=named,
        is_node=runtime == "dapr",
        url=url or os.environ.get("PUNCTUAL_URL"),
        key=key or os.environ.get("PUNCTUAL_KEY"),
        ca=read_ca(),
    )
    findings = asyncio.run(doctor.examine(subject))
    state = worst_of(findings)
    if output is Format.TABLE:
        show_findings(findings)
    else:
        show({"state": state.value, "findings": [_members(one) for one in findings]}, output)
    if state == "failed":
        count = sum(one.state == "failed" for one in findings)
        raise CommandError(f"{count} of {len(findings)} checks failed", Exit.REFUSED)


def show_findings(findings: "list[DoctorFinding]") -> None:
    """A line for each, its remedy below it; the state is a word, and on a terminal has a colour as well."""
    from rich.console import Console
    from rich.text import Text

    console = Console(markup=False, emoji=False, highlight=False, soft_wrap=True)
    for one in findings:
        line = Text(f"{one.state:<8}", style=COLOURS[one.state])
        line.append(f" {one.part:<9} {one.check}: {text_of(one.detail)}", style="default")
        console.print(line)
        if one.remedy:
            console.print(Text(f"{'':<18} remedy: {text_of(one.remedy)}"))


def _members(finding: "DoctorFinding") -> dict[str, str]:
    names = ("part", "check", "state", "detail", "remedy")
    return {name: str(getattr(finding, name)) for name in names}
