"""Exit codes of commands, and the errors that lead to them.

| code | meaning |
| --- | --- |
| 0 | done |
| 1 | refused by the service or a check |
| 2 | the command line or a file is wrong |
| 3 | the service cannot be reached, could not start, or answers what no scheduler does |
| 4 | `--wait` ran out of time |
| 5 | the awaited execution did not succeed |
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
    """Ends a command: the message, and the exit code."""

    def __init__(self, message: str, code: Exit = Exit.REFUSED) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class AbsentError(CommandError):
    """The service does not have the job, execution or service (404)."""
