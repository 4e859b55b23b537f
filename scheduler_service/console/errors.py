"""What can be wrong with the console's files, which are part of the distribution."""

from scheduler_service.domain.errors import PunctualError


class ConsoleError(PunctualError):
    """The console cannot be served; the message names the remedy."""


class ModuleError(ConsoleError):
    """A module is not of the form that the bundler takes: `FILE:LINE: what, and what to do`."""

    def __init__(self, path: str, line: int, message: str) -> None:
        super().__init__(f"{path}:{line}: {message}")
        self.path = path
        self.line = line
        self.reason = message


class VueMissing(ConsoleError):
    """The package that carries Vue is not installed."""
