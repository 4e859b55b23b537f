"""The client of the scheduler's API, async and blocking."""

from client_sdk.client.blocking import BlockingClient
from client_sdk.client.client import DEFAULT_URL, Client
from client_sdk.client.jobs import PostedJob
from client_sdk.client.retrying import Patience

__all__ = ["DEFAULT_URL", "BlockingClient", "Client", "Patience", "PostedJob"]
