"""Settings: read once at the start, refused by name when wrong (SPEC section 16)."""

from scheduler_service.settings.model import Settings
from scheduler_service.settings.sources import Loaded, SettingsError, load_settings

__all__ = ["Loaded", "Settings", "SettingsError", "load_settings"]
