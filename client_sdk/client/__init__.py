"""The client of the scheduler's API, async and blocking.

Each name is loaded when it is first used: a single connection does not need all the wire models.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from client_sdk.client.blocking import BlockingClient as BlockingClient
    from client_sdk.client.call_retries import Patience as Patience
    from client_sdk.client.client import DEFAULT_URL as DEFAULT_URL
    from client_sdk.client.client import Client as Client
    from client_sdk.client.jobs import PostedJob as PostedJob

_MODULES = {
    "DEFAULT_URL": "client_sdk.client.client",
    "BlockingClient": "client_sdk.client.blocking",
    "Client": "client_sdk.client.client",
    "Patience": "client_sdk.client.call_retries",
    "PostedJob": "client_sdk.client.jobs",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)
