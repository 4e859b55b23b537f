"""`punctual nodes`: the scheduler's own processes."""

from scheduler_service.cli.connection import connect
from scheduler_service.cli.options import Key, Output, Url
from scheduler_service.cli.output import Format, show_page

COLUMNS = ("nodeId", "state", "address", "version", "jobsHeld", "running", "lastHeartbeat")


def list_nodes(url: Url = None, key: Key = None, output: Output = Format.TABLE) -> None:
    """List the scheduler's processes with their state and load.

    Example: punctual nodes
    """
    show_page(connect(url, key).get("/nodes"), output, COLUMNS)
