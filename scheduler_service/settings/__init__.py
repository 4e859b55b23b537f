"""Settings: read once at the start, refused by name when wrong (SPEC section 16)."""

from scheduler_service.settings.model import Settings
from scheduler_service.settings.sources import LoadedSettings, SettingsError, load_settings

__all__ = ["LoadedSettings", "Settings", "SettingsError", "load_settings"]
