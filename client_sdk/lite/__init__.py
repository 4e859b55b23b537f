"""Jobs in the caller's own process: the same definition, chain and templates, no server (SPEC section 16).

The only part of the SDK that loads the scheduler's core.
"""

from client_sdk.lite.definition import DefinitionRefused
from client_sdk.lite.job import LiteExecution, LiteJob

__all__ = ["DefinitionRefused", "LiteExecution", "LiteJob"]
