"""What @job takes, and what it refuses (SPEC section 16)."""

from typing import Any

import pytest

from client_sdk.errors import DeclarationError
from client_sdk.target import job


def test_what_cannot_be_declared_is_said() -> None:
    """Which job it is, and what to write instead."""

    def declared(function: Any, **options: Any) -> Any:
        return job(**options)(function).define("files")

    def needs(size: int) -> None: ...
    def by_place(size: int, /) -> None: ...
    def by_many(*sizes: int) -> None: ...

    def nameless(size: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    refusals = {
        "needs no default": lambda: declared(needs, timer={"period": "5m", "dueTime": "0s"}),
        "by_place": lambda: declared(by_place),
        "by_many": lambda: declared(by_many),
        "Nowhere": lambda: declared(nameless),
        "no jobId": lambda: declared(needs, job_id="/"),
        "timeoutSeconds": lambda: declared(needs, timeout_seconds=-1),
        "leave out asynchronous": lambda: declared(needs, queue="q", asynchronous=True),
    }
    for words, attempt in refusals.items():
        with pytest.raises(DeclarationError) as caught:
            attempt()
        assert words.split()[-1] in str(caught.value)
    assert declared(needs, timer={"period": "5m", "dueTime": "0s"}, body={"size": 3})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"request": []}, "takes no request: its one step calls the function"),
        ({"check_url": "http://x"}, "takes no check_url: how far it is"),
        ({"active": 0}, "start_policy='manual'"),
        ({"jobId": "x"}, "takes no jobId: did you mean job_id?"),
        ({"time_out_seconds": 5}, "did you mean timeout_seconds?"),
        ({"zzz": 5}, "remove it or check its spelling"),
        ({"step": {"url": "queue://work"}}, "step takes no url: it is the function's own; work for a queue"),
        ({"step": {"serviceName": "x"}}, "step takes no serviceName"),
        ({"step": {"method": "GET"}}, "called by POST"),
        ({"step": {"body": 1}}, "give body=… beside step"),
        ({"step": {"leaseSeconds": 5}}, "leaseSeconds of step has no effect: it is for work that is claimed"),
        ({"queue": "q", "step": {"route": "hash"}}, "route of step has no effect"),
        ({"queue": "q", "step": {"timeoutSeconds": 5}}, "timeoutSeconds of step has no effect"),
    ],
)
def test_nothing_that_is_given_is_ignored(options: dict[str, Any], said: str) -> None:
    """What a declaration cannot honour is refused where it stands, with what to write instead."""
    with pytest.raises(DeclarationError) as caught:
        job(**options)(lambda: None)  # type: ignore[typeddict-item]
    assert said in str(caught.value)
