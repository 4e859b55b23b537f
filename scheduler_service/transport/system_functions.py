"""`system://NAME`: the system jobs' one step, bound to functions of this process (DESIGN section 2)."""

from collections.abc import Awaitable, Callable, Mapping

from scheduler_service.domain.wire import Answer
from scheduler_service.transport.errors import ConnectFailed, NoInstance

SystemFunction = Callable[[], Awaitable[Answer]]
PREFIX = "system://"


class SystemFunctions:
    """The functions that `system://NAME` reaches."""

    def __init__(self, *, functions: Mapping[str, SystemFunction]) -> None:
        self._functions = dict(functions)

    async def call(self, url: str) -> Answer:
        """Runs the function that `url` names. Raises NoInstance, and ConnectFailed when it fails."""
        name = url.removeprefix(PREFIX)
        function = self._functions.get(name)
        if function is None:
            raise NoInstance(
                f"There is no system function {name[:80]!r}: there are {sorted(self._functions)}."
            )
        try:
            return await function()
        except Exception as error:  # a room may fail in any way, and its step must end with it
            raise ConnectFailed(f"system://{name} failed: {type(error).__name__}: {error}") from error
