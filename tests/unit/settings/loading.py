"""Settings loaded from a text, an environment and a command line."""

from pathlib import Path

import pytest

from scheduler_service.settings import LoadedSettings, SettingsError, load_settings


def write(folder: Path, text: str) -> Path:
    """A TOML file."""
    path = folder / "punctual.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refusal(environ: dict[str, str], config: Path | None = None, **arguments: object) -> str:
    """What is said of settings that are refused."""
    with pytest.raises(SettingsError) as caught:
        load_settings({name.replace("__", "."): value for name, value in arguments.items()}, environ, config)
    return str(caught.value)


def shown(loaded: LoadedSettings) -> dict[str, tuple[object, str]]:
    """name → (value, source)."""
    return {name: (value, source) for name, value, source in loaded.effective()}
