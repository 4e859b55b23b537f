"""What can be wrong with settings."""

from scheduler_service.domain.errors import PunctualError


class SettingsError(PunctualError):
    """A setting that is unknown or wrong: the message names it, its value, where it came from, the remedy."""
