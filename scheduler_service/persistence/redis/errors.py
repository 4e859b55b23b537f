"""What a Redis store raises beyond `ports.errors`.

StoreRefused
└── ServerUnfit          the server cannot hold a store; the message names what to set
StoreUnavailable
└── LeaseLost            this process may not write to the store any more, and never will again

Of one command, inside this package:
CommandFailed
├── Unreached            it was not sent
│   └── Unsent           the server let the time of the commands before it pass
├── Refused              the server returned an error; `code` is its first word
└── Unanswered           it was sent, and no answer came
"""

from scheduler_service.ports.errors import StoreRefused, StoreUnavailable


class ServerUnfit(StoreRefused):
    """The server is too old, keeps nothing, or is not one that may be written to."""


class LeaseLost(StoreUnavailable):
    """Another process has taken the store, or the server has lost what it confirmed."""


class CommandFailed(Exception):
    """A command to the server failed."""


class Unreached(CommandFailed):
    """There was no connection: nothing was sent."""


class Unsent(Unreached):
    """The server did not answer a command before this one, which waited for it and was not sent."""


class Refused(CommandFailed):
    """The server answered with an error."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Unanswered(CommandFailed):
    """The connection was lost, or no answer came in time: the server may have run it, or may still do so."""
