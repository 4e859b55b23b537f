"""`punctual alerts`: what is alerted, and what is wrong now."""

from scheduler_service.cli.connection import connect
from scheduler_service.cli.options import Key, Output, Url
from scheduler_service.cli.output import Column, Format, at, note, show, show_page

CONFIGURED = (
    Column("name", free=True),
    Column("on", lambda row: ", ".join(row["on"]), free=True),
    Column("url", free=True),
    Column("minIntervalSeconds", spare=True),
    Column("trouble", free=True, spare=True),
)
OPEN = (
    at("since"),
    Column("alert", free=True),
    "kind",
    Column("subject", free=True),
    at("saidAt"),
    Column("executionId", spare=True),
)


def list_alerts(url: Url = None, key: Key = None, output: Output = Format.TABLE) -> None:
    """List the alerts of the settings, and what of them is open.

    Example: punctual alerts
    """
    data = connect(url, key).get("/alerts")
    if output is not Format.TABLE:
        show(data, output)
        return
    configured = {"items": data["configured"], "nextCursor": None}
    show_page(configured, output, CONFIGURED, empty="no alerts; the setting alerts has them")
    if data["configured"]:
        print()
        opened = {"items": data["open"], "nextCursor": None}
        show_page(opened, output, OPEN, empty="nothing is open")
    more = data["openCount"] - len(data["open"])
    if more > 0:
        note(f"and {more} more")
