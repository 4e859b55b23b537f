"""What the examination of a part found: its state in words, and what to do about it."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import httpx
import msgspec

from client_sdk.decoding import CODINGS, read_decoded, with_body
from scheduler_service.settings import LoadedSettings

LARGEST_ANSWER = 1 << 20
"""Nothing that is asked has more."""


class FindingState(StrEnum):
    """How a part is: `warning`, the service works, and something may go wrong; `failed`: it does not work."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class DoctorFinding(msgspec.Struct, frozen=True):
    """One line of the examination. `remedy` is empty where all is well; no text holds a secret."""

    part: str
    check: str
    state: FindingState
    detail: str
    remedy: str = ""


class ExaminedService(msgspec.Struct, frozen=True, kw_only=True):
    """What is examined: the settings, their file, and the service at `url` (None: the one of the settings).

    `folder` None: nothing is kept. `is_node`: the service is a node of a cluster on Dapr.
    `ca` is a file of certificates that are trusted as well.
    """

    loaded: LoadedSettings
    folder: Path | None
    config: Path | None = None
    is_node: bool = False
    url: str | None = None
    key: str | None = None
    ca: str | None = None


class ExaminedPart:
    """Words the findings of one part."""

    def __init__(self, name: str) -> None:
        self._name = name

    def well(self, check: str, detail: str) -> DoctorFinding:
        """Nothing is to be done."""
        return DoctorFinding(self._name, check, FindingState.OK, detail)

    def warn(self, check: str, detail: str, remedy: str) -> DoctorFinding:
        """The service works, and something may go wrong."""
        return DoctorFinding(self._name, check, FindingState.WARNING, detail, remedy)

    def fail(self, check: str, detail: str, remedy: str) -> DoctorFinding:
        """The service does not start or does not work."""
        return DoctorFinding(self._name, check, FindingState.FAILED, detail, remedy)


def worst_of(findings: list[DoctorFinding]) -> FindingState:
    """The state of all together."""
    states = {finding.state for finding in findings}
    return next(
        (state for state in (FindingState.FAILED, FindingState.WARNING) if state in states), FindingState.OK
    )


async def ask(
    client: httpx.AsyncClient, path: str, *, headers: Mapping[str, str] | None = None
) -> httpx.Response:
    """The answer to a GET. Raises httpx.HTTPError, and ValueError for an answer of more than 1 MiB."""
    own = {"Accept-Encoding": CODINGS, **(headers or {})}
    body = bytearray()
    async with client.stream("GET", path, headers=own) as answer:
        async for piece in read_decoded(answer):
            body += piece
            if len(body) > LARGEST_ANSWER:
                raise ValueError(f"the answer to {path} has more than {LARGEST_ANSWER >> 20} MiB")
    return with_body(answer, bytes(body))
