"""The places of the console, in the world of `seed`."""

from tests.console.service import ConsoleService

PLACES = (
    "/",
    "/jobs",
    "/jobs?text=nothing-has-this",
    "/jobs/orders",
    "/jobs/nightly",
    "/jobs/nightly/edit",
    "/new",
    "/executions",
    "/executions/{failed}",
    "/executions/{flaky}",
    "/executions/{report}",
    "/upcoming",
    "/calendars",
    "/calendars/office",
    "/calendars/office?edit=true",
    "/new-calendar",
    "/deliveries",
    "/services",
    "/services/billing",
    "/queues",
    "/queues/images",
    "/nodes",
    "/alerts",
    "/keys",
    "/secrets",
    "/audit",
    "/settings",
    "/nowhere",
)
"""Ids in braces are those of executions: see `address_of`."""


def address_of(service: ConsoleService, place: str) -> str:
    """The address of a place, with the ids that it needs."""
    if "{" not in place:
        return f"#{place}"
    wanted = {
        "failed": {"jobId": "orders", "state": "terminated"},
        "flaky": {"jobId": "flaky"},
        "report": {"jobId": "report"},
    }
    with service.caller() as client:
        ids = {
            name: client.get("/executions", params=query).json()["data"]["items"][0]["executionId"]
            for name, query in wanted.items()
        }
    return "#" + place.format_map(ids)
