"""The paths that are asked for most, matched before all others and without the layers of the framework."""

from collections.abc import Sequence

from starlette.routing import Route
from starlette.types import ASGIApp, Scope


class BusyPaths:
    """The routes of busy operations, in their order; all their parameters are one part of a path."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = tuple((route.path_regex.match, route.endpoint) for route in routes)

    def find(self, scope: Scope) -> ASGIApp | None:
        """The endpoint of the path, which is then told its parameters as a router does; None: another path.

        Below the `root_path` of a server none is found: there the router reads the path.
        """
        if scope["type"] != "http" or scope.get("root_path"):
            return None
        path = scope["path"]
        for match, endpoint in self._routes:
            if (found := match(path)) is not None:
                scope["path_params"] = found.groupdict()
                scope["endpoint"] = endpoint
                return endpoint
        return None
