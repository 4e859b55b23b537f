"""Where settings come from: command line, then environment, then a TOML file, then defaults."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from pydantic import BaseModel, ValidationError

from scheduler_service.settings.errors import SettingsError
from scheduler_service.settings.model import Egress, Settings

PREFIX = "PUNCTUAL_"
# Names of the environment that the command line reads for itself, and those of the scripts.
NOT_SETTINGS = frozenset(
    {
        "PUNCTUAL_URL",
        "PUNCTUAL_KEY",
        "PUNCTUAL_CONFIG",
        "PUNCTUAL_PYTHON",
        "PUNCTUAL_TEST_WORKERS",
        "PUNCTUAL_DAPR_BIN",
        "PUNCTUAL_REQUIRE_DAPR",
        "PUNCTUAL_BENCH_CACHE",
    }
)
LATER = frozenset({"signing", "secrets"})
AS_WRITTEN = frozenset({"env", "secrets"})
COLLECTIONS = frozenset({"tuple_type", "dict_type", "model_type", "model_attributes_type"})
Place = tuple[str, ...]


class Loaded(msgspec.Struct, frozen=True):
    """The settings, and for each given one (`egress.allow`) where it came from. `has_file`: a file too."""

    settings: Settings
    sources: dict[str, str]
    has_file: bool = False

    def allowing(self, host: str) -> "Loaded":
        """The same settings, with one more entry in `egress.allow` where they say anything of egress.

        Without any configuration loopback is allowed anyway; what `egress.deny` refuses stays refused.
        """
        egress = self.settings.egress
        if egress is None and not self.has_file:
            return self
        egress = egress or Egress()
        wider = egress.model_copy(update={"allow": (*egress.allow, host)})
        settings = self.settings.model_copy(update={"egress": wider})
        return msgspec.structs.replace(self, settings=settings)

    def effective(self) -> Iterator[tuple[str, object, str]]:
        """(name, value, source) of every setting; `server.key` and passwords in addresses are not shown."""
        for name, value in _flatten(self.settings.model_dump(mode="json")):
            shown = "(set)" if name == "server.key" and value else _hide_password(name, value)
            yield name, shown, self._source(name)

    def _source(self, name: str) -> str:
        parts = name.split(".")
        places = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
        return next((self.sources[place] for place in places if place in self.sources), "default")


def load_settings(
    arguments: Mapping[str, object], environ: Mapping[str, str], config: Path | None = None
) -> Loaded:
    """The effective settings. `arguments` are those of the command line by name (`server.port`).

    Raises SettingsError for a file that cannot be read and for what is unknown or wrong, by name.
    """
    tree: dict[str, Any] = {}
    sources: dict[str, str] = {}
    settings = Settings()
    for source, values in (
        (f"file {config}", _read_file(config)),
        ("environment", _read_environment(environ)),
        ("command line", [(tuple(name.split(".")), value) for name, value in arguments.items()]),
    ):
        for path, value in values:
            _check_known(path, source)
            _put(tree, path, value)
            sources[".".join(path)] = source
        # After each source, so that a wrong value is refused also where a later source overrules it.
        settings = _validate(tree, sources)
    return Loaded(settings, sources, config is not None)


def read_env_file(path: Path) -> dict[str, str]:
    """The variables of an `env.sh`: lines `[export ]NAME=value`, read and never executed."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"env_file {path} cannot be read: {error}") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip().removeprefix("export ").strip()
        if not text or text.startswith("#"):
            continue
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise SettingsError(f"env_file {path}, line {number}: {line!r} is not [export ]NAME=value")
        found[name] = _unquote(value)
    return found


def _unquote(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value


def _read_file(config: Path | None) -> list[tuple[Place, object]]:
    if config is None:
        return []
    try:
        tree = tomllib.loads(config.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"the configuration {config} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"the configuration {config} is no TOML: {error}") from error
    return [((group, *rest), value) for group in tree for rest, value in _leaves(tree[group])]


def _leaves(value: object) -> Iterator[tuple[Place, object]]:
    """A group's members one by one; tables below them (as `env.<tenant>`) stay whole."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield (name,), item
    else:
        yield (), value


def _read_environment(environ: Mapping[str, str]) -> list[tuple[Place, object]]:
    found: list[tuple[Place, object]] = []
    for name, text in sorted(environ.items()):
        if not name.startswith(PREFIX) or name in NOT_SETTINGS:
            continue
        group, *rest = name.removeprefix(PREFIX).split("__")
        lowered = group.lower()
        if lowered in AS_WRITTEN:
            tenant, *variable = rest or [""]
            path = [tenant, "__".join(variable)] if variable else rest
            found.append(((lowered, *path), text if variable else _read_text(text)))
        else:
            found.append(((lowered, *(part.lower() for part in rest)), _read_text(text)))
    return found


def _read_text(text: str) -> object:
    """Lists and tables are JSON; everything else is a text, which the model reads as what it wants."""
    if text[:1] in ("[", "{"):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def _put(tree: dict[str, Any], path: Place, value: object) -> None:
    *groups, last = path
    for group in groups:
        below = tree.setdefault(group, {})
        if not isinstance(below, dict):
            raise SettingsError(f"{'.'.join(path)}: {group} is a single value and has no members")
        tree = below
    known = tree.get(last)
    tree[last] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value


def _check_known(path: Place, source: str) -> None:
    if path[0] in LATER:
        name = ".".join(path)
        raise SettingsError(f"{name} ({source}) is not available in this version; remove it")


def _validate(tree: dict[str, Any], sources: Mapping[str, str]) -> Settings:
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = [str(part) for part in first["loc"]]
        raise SettingsError(_describe(path, first["type"], first["msg"], first["input"], sources)) from None


def _describe(path: list[str], kind: str, message: str, value: object, sources: Mapping[str, str]) -> str:
    named = [part for part in path if part != "[key]"]  # the key of a table is wrong, not its value
    name = ".".join(named)
    source = _find_source(named, sources)
    if kind == "extra_forbidden":
        return f"unknown setting {name} ({source}); known in its group: {', '.join(_known(named))}"
    shown = "(hidden)" if name == "server.key" else repr(_hide_password(name, value))
    if kind in COLLECTIONS:
        form = "a list" if kind == "tuple_type" else "a table"
        message = f"must be {form}; in the environment lists and tables are JSON"
    return f"{name} = {shown} ({source}): {message.removeprefix('Value error, ')}"


def _hide_password(name: str, value: object) -> object:
    """An address without whoever logs in; that of a database without what follows a question mark, too."""
    if not isinstance(value, str):
        return value
    shown = re.sub(r"//.*@", "//***@", value)
    return re.sub(r"\?.*", "?***", shown) if name.endswith(".url") else shown


def _find_source(path: list[str], sources: Mapping[str, str]) -> str:
    """Where the setting itself, one around it, or one within it was given."""
    around = [".".join(path[:end]) for end in range(len(path), 0, -1)]
    within = (place for place in sources if place.startswith(f"{around[0]}."))
    return next((sources[place] for place in (*around, *within) if place in sources), "settings")


def _known(path: list[str]) -> list[str]:
    model: Any = Settings
    for part in path[:-1]:
        annotation = model.model_fields[part].annotation
        options = getattr(annotation, "__args__", (annotation,))
        model = next(
            (one for one in options if isinstance(one, type) and issubclass(one, BaseModel)), Settings
        )
    return sorted(model.model_fields)


def _flatten(value: object, path: Place = ()) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _flatten(item, (*path, name))
    else:
        yield ".".join(path), value
