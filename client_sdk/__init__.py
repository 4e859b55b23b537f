"""The SDK of Punctual: a client, declared jobs for services, a worker for pull queues, and `lite`.

Names are loaded when they are first used, so that importing the wire models loads nothing else.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from client_sdk.client import BlockingClient as BlockingClient
    from client_sdk.client import Client as Client
    from client_sdk.client import Patience as Patience
    from client_sdk.errors import JobFailed as JobFailed
    from client_sdk.errors import NotWanted as NotWanted
    from client_sdk.errors import Problem as Problem
    from client_sdk.errors import SdkError as SdkError
    from client_sdk.signing import Verifier as Verifier
    from client_sdk.target import Execution as Execution
    from client_sdk.target import Service as Service
    from client_sdk.target import job as job
    from client_sdk.worker import Worker as Worker

_MODULES = {
    "BlockingClient": "client_sdk.client",
    "Client": "client_sdk.client",
    "JobFailed": "client_sdk.errors",
    "NotWanted": "client_sdk.errors",
    "Patience": "client_sdk.client",
    "Problem": "client_sdk.errors",
    "SdkError": "client_sdk.errors",
    "Execution": "client_sdk.target",
    "Service": "client_sdk.target",
    "Verifier": "client_sdk.signing",
    "Worker": "client_sdk.worker",
    "job": "client_sdk.target",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)
