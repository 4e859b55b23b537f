"""Everything the environment may say; read once, refused when wrong (SPEC section 16)."""

from scheduler_service.settings.errors import SettingsError
from scheduler_service.settings.model import Settings
from scheduler_service.settings.sources import Loaded, load_settings

__all__ = ["Loaded", "Settings", "SettingsError", "load_settings"]
