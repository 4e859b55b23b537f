"""How a command ends: its exit codes, and the errors that lead to them.

| code | meaning |
| --- | --- |
| 0 | done |
| 1 | refused: the service or a check said no |
| 2 | the command line or a file is wrong |
| 3 | the service cannot be reached, or could not start |
| 4 | `--wait` ran out of time |
| 5 | what was waited for ended otherwise than `succeeded` |
"""

from enum import IntEnum


class Exit(IntEnum):
    """The exit codes of every command."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    UNREACHABLE = 3
    TIMED_OUT = 4
    FAILED = 5


class CommandError(Exception):
    """A command ends here: what to tell, and the exit code."""

    def __init__(self, message: str, code: Exit = Exit.REFUSED) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class AbsentError(CommandError):
    """The service has no such thing (404)."""
