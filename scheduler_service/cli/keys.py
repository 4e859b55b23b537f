"""`punctual keys …`: who may use the API; on the data folder, or over the API of a service."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scheduler_service.cli.db_commands import Data
from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.options import Commands, Config, Key, Url, path_of, read_ahead, read_seconds
from scheduler_service.cli.output import Column, FieldsPage, RowsPage, at, note
from scheduler_service.cli.service_connection import ApiConnection, connect
from scheduler_service.cli.serving import read_settings
from scheduler_service.domain.errors import PunctualError

if TYPE_CHECKING:
    from scheduler_service.settings import Settings

app = Commands(
    no_args_is_help=True,
    help="Keys of callers: on the data folder, without a service; with --url or PUNCTUAL_URL over its API.",
)
KeyId = Annotated[str, typer.Argument(help="The key's keyId.", metavar="KEY_ID")]
Tenant = Annotated[str | None, typer.Option(help="The tenant; else that of the caller, or 'default'.")]
COLUMNS = (
    Column("keyId"),
    Column("name", free=True),
    "role",
    Column("for", lambda row: row["service"] or ", ".join(row["labels"]) or None, free=True),
    "state",
    at("lastUsedAt"),
    at("expiresAt"),
    at("createdAt", spare=True),
)
MADE = FieldsPage(
    (
        "key",
        "keyId",
        "name",
        "tenant",
        "role",
        "service",
        Column("labels", lambda row: ", ".join(row["labels"]) or None),
        at("expiresAt"),
        at("earlierUntil", "old text valid until"),
    )
)


@app.command("create", page=MADE)
def create_key(
    name: Annotated[str, typer.Argument(help="Whose it is, or what for.", metavar="NAME")],
    role: Annotated[str, typer.Option(help="viewer, operator, editor or admin.")] = "viewer",
    tenant: Tenant = None,
    service: Annotated[str | None, typer.Option(help="For this service, which it sees alone.")] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", help="For jobs with this label alone, NAME:VALUE; may be given again."),
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="It ends then: a duration from now, as 90d, or a moment.")
    ] = None,
    data: Data = None,
    config: Config = None,
    url: Url = None,
    key: Key = None,
) -> Any:
    """Make a key, and show its text this once.

    Example: punctual keys create alice --role admin
    """
    given = {
        "name": name,
        "role": role,
        "tenant": tenant,
        "service": service,
        "labels": label,
        "expiresAt": read_ahead(expires),
    }
    wanted = {member: value for member, value in given.items() if value is not None}
    if (api := _reach(url, key, data, config)) is not None:
        made = api.send("POST", "/keys", body=wanted)
    else:
        from scheduler_service.maintenance import database_keys

        made = _run(lambda settings: database_keys.make_key(settings, wanted), data, config)
    note("this is the only time that the key is shown")
    return made


@app.command("list", page=RowsPage(COLUMNS, "there are no keys; make one: punctual keys create NAME"))
def list_keys(
    tenant: Tenant = None,
    data: Data = None,
    config: Config = None,
    url: Url = None,
    key: Key = None,
) -> Any:
    """List the keys of a tenant, ended ones too; no text of a key is known.

    Example: punctual keys list
    """
    if (api := _reach(url, key, data, config)) is not None:
        return {"items": list(api.items("/keys", tenant=tenant)), "nextCursor": None}
    from scheduler_service.maintenance import database_keys

    found = _run(lambda settings: database_keys.list_keys(settings, tenant), data, config)
    return {"items": found, "nextCursor": None}


@app.command("revoke")
def revoke_key(
    key_id: KeyId, data: Data = None, config: Config = None, url: Url = None, key: Key = None
) -> None:
    """End a key for good: within a second at every node.

    Example: punctual keys revoke 3f0c9a17b2d4e685
    """
    if (api := _reach(url, key, data, config)) is not None:
        ended = api.send("DELETE", path_of("key", key_id))
    else:
        from scheduler_service.maintenance import database_keys

        ended = _run(lambda settings: database_keys.revoke_key(settings, key_id), data, config)
    note(f"the key {ended['keyId']} of {ended['name']} is revoked")


@app.command("rotate", page=MADE)
def rotate_key(
    key_id: KeyId,
    overlap: Annotated[
        float,
        typer.Option(
            help="So long the old text is valid, too: 90, 5m, 1h.", parser=read_seconds, metavar="DURATION"
        ),
    ] = 0.0,
    data: Data = None,
    config: Config = None,
    url: Url = None,
    key: Key = None,
) -> Any:
    """Give a key a new text, and show that this once.

    Example: punctual keys rotate 3f0c9a17b2d4e685 --overlap 1h
    """
    if (api := _reach(url, key, data, config)) is not None:
        body = {"overlapSeconds": overlap}
        made = api.send("POST", f"{path_of('key', key_id)}/rotate", body=body)
    else:
        from scheduler_service.maintenance import database_keys

        made = _run(lambda settings: database_keys.rotate_key(settings, key_id, overlap), data, config)
    note("this is the only time that the key is shown")
    return made


def _reach(url: str | None, key: str | None, data: str | None, config: Path | None) -> ApiConnection | None:
    """The service, where one is named; None: the database that the settings name."""
    is_local = data is not None or config is not None
    if url is not None and is_local:
        raise CommandError("--url names a service, --data and --config a database: give one", Exit.USAGE)
    if url is None and (is_local or not os.environ.get("PUNCTUAL_URL")):
        return None
    return connect(url, key)


def _run(work: "Callable[[Settings], Any]", data: str | None, config: Path | None) -> Any:
    settings = read_settings({"store.data": data}, config).settings
    if settings.store.data == ":memory:":
        raise CommandError("--data :memory: stores nothing, keys neither", Exit.USAGE)
    try:
        return work(settings)
    except PunctualError as error:
        raise CommandError(str(error)) from error
