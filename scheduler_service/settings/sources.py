"""The sources of settings: command line, environment, those of others, a TOML file, defaults."""

import json
import re
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, get_args

import msgspec
from pydantic import BaseModel, ValidationError

from scheduler_service.domain.errors import PunctualError
from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.domain.secret_places import speaks_of_secret
from scheduler_service.security.name_masks import hide_login
from scheduler_service.security.secret_vault import read_seal_key
from scheduler_service.security.secrets import MOST_FILES, read_text
from scheduler_service.settings.model import IN_FILE, EgressSettings, Settings
from scheduler_service.settings.otel_variables import SOURCE as OTEL_SOURCE
from scheduler_service.settings.otel_variables import OtelError, read_otel, variables_of

PREFIX = "PUNCTUAL_"
FILE = "file "
"""What the source of a setting begins with that a file gives."""
# Variables with the prefix that are no settings: of the command line, the scripts and the benchmarks.
NOT_SETTINGS = frozenset(
    {
        "PUNCTUAL_URL",
        "PUNCTUAL_KEY",
        "PUNCTUAL_CA",
        "PUNCTUAL_CONFIG",
        "PUNCTUAL_PYTHON",
        "PUNCTUAL_TEST_WORKERS",
        "PUNCTUAL_DAPR_BIN",
        "PUNCTUAL_REQUIRE_DAPR",
        "PUNCTUAL_BENCH_CACHE",
    }
)
SERVICE_LINK = re.compile(
    r"PUNCTUAL(_[A-Z0-9]+)*_("
    r"(SERVICE_HOST|PORT_\d+_[A-Z]+_ADDR)=[0-9a-f.:]+"
    r"|(SERVICE_PORT(_[A-Z0-9]+)*|PORT_\d+_[A-Z]+_PORT)=\d+"
    r"|PORT_\d+_[A-Z]+_PROTO=(tcp|udp|sctp)"
    r"|PORT(_\d+_[A-Z]+)?=(tcp|udp|sctp)://\S+)"
)
"""`NAME=VALUE` that Kubernetes sets for each Service whose name begins with `punctual`."""
CASE_SENSITIVE = frozenset({"env", "secrets", "tenants"})
SECRET = frozenset(
    (
        "server.key",
        "dapr.app_token",
        "dapr.api_token",
        "secrets",
        "secrets_key",
        "signing",
        "signing.md5_secret",
    )
)
"""Settings whose values are never shown."""
OF_DAPR = {"DAPR_API_TOKEN": ("dapr", "api_token"), "APP_API_TOKEN": ("dapr", "app_token")}
"""Dapr's own variables for what are settings here; those with the prefix take precedence."""
COLLECTION_ERRORS = frozenset({"tuple_type", "dict_type", "model_type", "model_attributes_type"})
MOST_SEAL_KEYS = 2
LONGEST_FILE = 1 << 20
"""In bytes: a device has no end."""
NEXT_COMMAND = re.compile(r";(\s|$)")
"""In a line of a shell: what follows is another command."""
Name = tuple[str, ...]


class SettingsError(PunctualError):
    """A setting that is unknown or wrong: the message has its name, value, source and the remedy."""


class LoadedSettings(msgspec.Struct, frozen=True):
    """The settings, and the source of each given one (`egress.allow`). `has_file`: one source is a file.

    `passed_over` are the variables that look like settings, and that Kubernetes sets for a Service.
    """

    settings: Settings
    sources: dict[str, str]
    has_file: bool = False
    passed_over: tuple[str, ...] = ()

    def allowing(self, host: str) -> "LoadedSettings":
        """The same settings with `host` in `egress.allow`, if they have a group `egress` or come from a file.

        Otherwise loopback is allowed by default. What `egress.deny` refuses stays refused.
        """
        egress = self.settings.egress
        if egress is None and not self.has_file:
            return self
        egress = egress or EgressSettings()
        wider = egress.model_copy(update={"allow": (*egress.allow, host)})
        settings = self.settings.model_copy(update={"egress": wider})
        return msgspec.structs.replace(self, settings=settings)

    def effective(self) -> Iterator[tuple[str, object, str]]:
        """(name, value, source) of every setting, without secrets and passwords in addresses."""
        for name, value in _flatten(self.settings.model_dump(mode="json")):
            shown = "***" if _is_secret(name) and value else _hide_login(value)
            yield name, shown, self._source(name)

    def exposed_files(self) -> list[str]:
        """The files with secrets, as settings name them, that every user of this machine can read."""
        settings = self.settings
        read = {
            name: source.removeprefix(FILE)
            for name, source in self.sources.items()
            if source.startswith(FILE)
        }
        named = [*{place: None for name, place in read.items() if _is_secret(name)}]
        named += filter(None, (settings.env_file, settings.secrets_key_file))
        files = [*map(Path, named)]
        if settings.secrets_dir is not None:
            folder = Path(settings.secrets_dir)
            files += islice(chain(folder.glob("*"), folder.glob("*/*")), MOST_FILES)
        return [str(place) for place in files if is_exposed(place)]

    def describe(self) -> dict[str, object]:
        """name → `value` and `source` of every setting, as `GET /settings` shows them."""
        return {name: {"value": value, "source": source} for name, value, source in self.effective()}

    def _source(self, name: str) -> str:
        names = _enclosing(name.split("."))
        return next((self.sources[one] for one in names if one in self.sources), "default")


def is_exposed(place: Path) -> bool:
    """Whether it is a file that every user of this machine can read."""
    try:
        mode = place.stat().st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & stat.S_IROTH)


def load_settings(
    arguments: Mapping[str, object], environ: Mapping[str, str], config: Path | None = None
) -> LoadedSettings:
    """The effective settings. `arguments` are those of the command line by name (`server.port`).

    Raises SettingsError for a file that cannot be read, and for a setting that is unknown or wrong.
    """
    tree: dict[str, Any] = {}
    sources: dict[str, str] = {}
    settings = Settings()
    for source, values in (
        (f"{FILE}{config}", _read_file(config)),
        (OTEL_SOURCE, _read_otel(environ)),
        *_read_dapr(environ),
        ("environment", _read_environment(environ)),
        ("command line", [(tuple(name.split(".")), value) for name, value in arguments.items()]),
    ):
        for path, value in values:
            _put(tree, path, value)
            sources[".".join(path)] = source
        # After each source, so that a wrong value is refused even if a later source overrides it.
        settings = _validate(tree, sources, IN_FILE if source.startswith(FILE) else None)
    return LoadedSettings(
        settings, sources, config is not None, tuple(filter(partial(_is_link, environ), sorted(environ)))
    )


def read_env_file(path: Path) -> dict[str, str]:
    """The variables in a file of lines `[export ]NAME=value`, which is read and never executed."""
    try:
        lines = _read_limited(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"env_file {path} cannot be read: {error}") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip().removeprefix("export ").strip()
        if not text or text.startswith("#"):
            continue
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise SettingsError(f"env_file {path}, line {number}: it is not [export ]NAME=value")
        found[name] = _unquote(value)
        if found[name] == value and NEXT_COMMAND.search(value):
            raise SettingsError(
                f"env_file {path}:{number}: the value of {name} goes on after ';', which ends it in a shell "
                "and is text here: write one [export ]NAME=value a line, or put the whole value in quotes"
            )
    return found


def read_seal_keys(settings: Settings) -> tuple[bytes, ...]:
    """The keys under which secrets are stored, the one for new ones first; none: no secret is stored.

    Raises SettingsError for a file that cannot be read or has no key.
    """
    texts = list(settings.secrets_key)
    if settings.secrets_key_file is not None and not texts:
        path = settings.secrets_key_file
        try:
            texts = _read_limited(Path(path)).split()
            keys = tuple(map(read_seal_key, texts))
        except OSError as error:
            raise SettingsError(f"secrets_key_file {path} cannot be read: {error.strerror}") from error
        except ValueError as error:  # of bytes that are no text, too
            raise SettingsError(f"secrets_key_file {path} has no key: {error}") from None
        if not 1 <= len(keys) <= MOST_SEAL_KEYS:
            raise SettingsError(
                f"secrets_key_file {path} has {len(keys)} keys; write one a line, two at most"
            )
        return keys
    return tuple(map(read_seal_key, texts))


def _read_limited(path: Path) -> str:
    """The text of a file, which may be a pipe; a byte order mark, as Windows writes it, is left out.

    Raises OSError, UnicodeDecodeError, SettingsError.
    """
    with path.open("rb") as file:
        content = file.read(LONGEST_FILE + 1)
    if len(content) > LONGEST_FILE:
        raise SettingsError(f"{path} is larger than {LONGEST_FILE:,} bytes, so it is no file of settings")
    return content.decode("utf-8-sig")


def _unquote(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value


def _read_file(config: Path | None) -> list[tuple[Name, object]]:
    if config is None:
        return []
    try:
        tree = tomllib.loads(_read_limited(config))
    except OSError as error:
        raise SettingsError(f"the configuration {config} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"the configuration {config} is not valid TOML: {error}") from error
    except RecursionError:
        raise SettingsError(f"the configuration {config} is not valid TOML: it is nested too deep") from None
    return [((group, *rest), value) for group in tree for rest, value in _leaves(tree[group])]


def _leaves(value: object) -> Iterator[tuple[Name, object]]:
    """The members of a group one by one; tables below them (`env.<tenant>`) are not split."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield (name,), item
    else:
        yield (), value


def _read_environment(environ: Mapping[str, str]) -> list[tuple[Name, object]]:
    found: list[tuple[Name, object]] = []
    for name, text in sorted(environ.items()):
        if not name.startswith(PREFIX) or name in NOT_SETTINGS or _is_link(environ, name):
            continue
        group, *rest = name.removeprefix(PREFIX).split("__")
        lowered = group.lower()
        if lowered in CASE_SENSITIVE:
            tenant = [DEFAULT_TENANT if one == "DEFAULT" else one for one in rest[:1]]
            variable = rest[1:]
            path = [*tenant, "__".join(variable)] if variable else tenant
            read = _READ_BELOW.get(lowered, _read_text) if variable else _read_text
            found.append(((lowered, *path), read(text)))
        else:
            found.append(((lowered, *(part.lower() for part in rest)), _read_text(text)))
    return found


def _is_link(environ: Mapping[str, str], name: str) -> bool:
    return SERVICE_LINK.fullmatch(f"{name}={environ[name]}") is not None


def _read_otel(environ: Mapping[str, str]) -> list[tuple[Name, object]]:
    try:
        return list(read_otel(environ))
    except OtelError as error:
        raise SettingsError(str(error)) from error


def _read_dapr(environ: Mapping[str, str]) -> Iterator[tuple[str, list[tuple[Name, object]]]]:
    """A source for each variable of Dapr that is not empty."""
    for variable, path in OF_DAPR.items():
        if environ.get(variable):
            yield f"environment {variable}", [(path, environ[variable])]


def _read_text(text: str) -> object:
    """Lists and tables are JSON; everything else is text, which the model converts."""
    if text[:1] in ("[", "{"):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


_READ_BELOW: Mapping[str, Callable[[str], object]] = {"env": str, "secrets": read_text}
"""How the value of a name below a tenant is read, where it is no setting of its own."""


def _put(tree: dict[str, Any], path: Name, value: object) -> None:
    *groups, last = path
    for group in groups:
        below = tree.setdefault(group, {})
        if not isinstance(below, dict):
            raise SettingsError(f"{'.'.join(path)}: {group} is a single value and has no members")
        tree = below
    known = tree.get(last)
    tree[last] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value


def _validate(tree: dict[str, Any], sources: Mapping[str, str], context: str | None) -> Settings:
    try:
        return Settings.model_validate(tree, context=context)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = [str(part) for part in first["loc"]]
        raise SettingsError(_describe(path, first["type"], first["msg"], first["input"], sources)) from None


def _describe(path: list[str], kind: str, message: str, value: object, sources: Mapping[str, str]) -> str:
    named = [part for part in path if part != "[key]"]  # pydantic marks a wrong key of a table so
    name = ".".join(named)
    source = _find_source(named, sources)
    if source == OTEL_SOURCE:
        source = f"environment {variables_of(named[1])}"
    if kind == "extra_forbidden":
        return f"unknown setting {name} ({source}); known in its group: {', '.join(_known(named))}"
    is_hidden = _is_secret(name) or _may_hold_secrets(named, kind, value)
    shown = "(hidden)" if is_hidden else repr(hide_login(value) if isinstance(value, str) else value)
    if kind in COLLECTION_ERRORS:
        form = "a list" if kind == "tuple_type" else "a table"
        message = f"must be {form}; in the environment lists and tables are JSON{_flaw(value)}"
    return f"{name} = {shown} ({source}): {message.removeprefix('Value error, ')}"


def _is_secret(name: str) -> bool:
    if name.startswith("env."):
        return speaks_of_secret(name.rpartition(".")[2])
    hidden = ("traces.headers", "secrets.", "secrets_key.", "signing.secrets")
    return name in SECRET or name.startswith(hidden)


def _may_hold_secrets(named: list[str], kind: str, value: object) -> bool:
    """Whether a refused value may have secrets in it: what should be a table, or is one, and headers."""
    is_text = isinstance(value, str)
    is_table = (is_text and kind in COLLECTION_ERRORS - {"tuple_type"}) or isinstance(value, dict | list)
    of_alerts = named[0] == "alerts" and (kind == "tuple_type" or named[-1] in ("alerts", "secret", "body"))
    return is_table or of_alerts or "headers" in named


def _flaw(value: object) -> str:
    """What is wrong with a text that looks like JSON, and where; nothing of it is repeated."""
    if not isinstance(value, str) or value[:1] not in ("[", "{"):
        return ""
    try:
        json.loads(value)
    except ValueError as error:
        flaw = error if isinstance(error, json.JSONDecodeError) else None
        return f": {flaw.msg} at character {flaw.pos + 1}" if flaw is not None else ""
    return ""


def _hide_login(value: object) -> object:
    return hide_login(value) if isinstance(value, str) and "//" in value else value


def _find_source(path: list[str], sources: Mapping[str, str]) -> str:
    """The source of the setting itself, of a group that contains it, or of a member of it."""
    enclosing = _enclosing(path)
    members = (name for name in sources if name.startswith(f"{enclosing[0]}."))
    return next((sources[name] for name in (*enclosing, *members) if name in sources), "settings")


def _enclosing(path: list[str]) -> list[str]:
    """The name itself, then those of the groups that contain it, outwards."""
    return [".".join(path[:end]) for end in range(len(path), 0, -1)]


def _known(path: list[str]) -> list[str]:
    model: Any = Settings
    for part in path[:-1]:
        if part not in model.model_fields:  # the place in a list, the name of a tenant
            continue
        annotation = model.model_fields[part].annotation
        types = (one for one in _types_in(annotation) if isinstance(one, type))
        model = next((one for one in types if issubclass(one, BaseModel)), Settings)
    return sorted(field.alias or name for name, field in model.model_fields.items())


def _types_in(annotation: Any) -> Iterator[Any]:
    """The types of a field, also those that its list or table has."""
    yield annotation
    for one in get_args(annotation):
        yield from _types_in(one)


def _flatten(value: object, path: Name = ()) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _flatten(item, (*path, name))
    else:
        yield ".".join(path), value
