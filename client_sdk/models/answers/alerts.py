"""Alerts: those of the settings, and what of them lasts (SPEC section 14)."""

from pydantic import AwareDatetime, Field

from client_sdk.models.answers.form import AnswerModel


class ConfiguredAlert(AnswerModel):
    """An alert of the settings; values of headers, and the query of the address, are hidden.

    `deliveriesOf`: the job whose deliveries are those of this alert. `trouble`: why it cannot be sent as
    settings are now; null: it can.
    """

    name: str
    on: list[str]
    url: str
    method: str = "POST"
    headers: dict[str, str] = Field({})
    label: list[str] = Field([])
    job_id: str | None = None
    min_interval_seconds: float
    overdue_seconds: float
    failing_count: int
    deliveries_of: str
    trouble: str | None = None


class OpenAlert(AnswerModel):
    """What one alert is open for; `saidAt` null: it was not sent yet."""

    alert: str
    kind: str
    subject: str
    job_id: str | None = None
    execution_id: str | None = None
    since: AwareDatetime
    said_at: AwareDatetime | None = None
    text: str


class Alerts(AnswerModel):
    """All alerts; `open` has the first 500 of `openCount`."""

    configured: list[ConfiguredAlert]
    open: list[OpenAlert]
    open_count: int
