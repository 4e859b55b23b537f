"""The command line, called in this process against a real service."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

NUMBERS = itertools.count(1)


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """What `-o json` printed."""
        return json.loads(self.out)


class Terminal:
    """Enters commands; makes files and jobs of its own."""

    def __init__(self, *, enter: Callable[..., Ended], service: str, folder: Path) -> None:
        self.enter = enter
        self.service = service
        self.folder = folder

    def done(self, *arguments: str) -> Ended:
        """A command that must succeed."""
        ended = self.enter(*arguments)
        assert ended.code == 0, ended
        return ended

    def definition(self, path: str = "/health/live", **members: Any) -> dict[str, Any]:
        """A definition under a fresh id that fires by trigger; its one step asks the service itself."""
        base = {
            "jobId": f"{self.folder.name}-{next(NUMBERS)}",
            "jobName": "a job",
            "creator": "1",
            "creatorName": "one",
            "timer": {"dueTime": "0s", "period": "external"},
            "request": [{"method": "GET", "url": f"{self.service}{path}"}],
        }
        return base | members

    def write(self, name: str, value: object) -> str:
        """A file in the folder; its name."""
        text = value if isinstance(value, str) else json.dumps(value)
        (self.folder / name).write_text(text, encoding="utf-8")
        return name

    def make(self, path: str = "/health/live", **members: Any) -> str:
        """A job; its id."""
        definition = self.definition(path, **members)
        self.done("jobs", "create", "-f", self.write("made.json", definition))
        return str(definition["jobId"])
