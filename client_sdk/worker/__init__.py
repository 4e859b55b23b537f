"""Workers: instances that claim their work from a pull queue (SPEC section 13)."""

from client_sdk.worker.part import LocalRetry
from client_sdk.worker.worker import Worker

__all__ = ["LocalRetry", "Worker"]
