"""What @job takes, and what it refuses (SPEC section 16)."""

from datetime import timedelta
from typing import Any

import pytest

from client_sdk import Client
from client_sdk.errors import DeclarationError
from client_sdk.models import RetryPolicy
from client_sdk.target import JobOptions, Service, job
from client_sdk.target.options import OTHER_WORDS
from tests.rows import each_row


def test_a_decorator_without_parentheses_is_explained() -> None:
    """`@job` and `@service.job`: a hint instead of a TypeError about arguments."""

    def work() -> None: ...

    service = Service("files", client=Client(), signals=())
    for decorator, name in ((job, "@job()"), (service.job, "@service.job()")):
        with pytest.raises(DeclarationError) as caught:
            decorator(work)  # type: ignore[arg-type]
        assert str(caught.value).startswith(f"write {name} with parentheses")


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
    assert declared(needs, disabled=True)["disabled"] is True


@each_row(
    ("options", "said"),
    [
        ({"request": []}, "takes no request: its one step calls the function"),
        ({"check_url": "http://x"}, "takes no check_url: how far it is"),
        ({"active": 0}, "start_policy='manual'"),
        ({"enabled": False}, "a job of which nothing runs is disabled=True"),
        ({"jobId": "x"}, "unknown option 'jobId': did you mean job_id?"),
        ({"time_out_seconds": 5}, "did you mean timeout_seconds?"),
        ({"every": "5m"}, "unknown option 'every': a period is timer={'period': '5m'}"),
        ({"every": 90}, "a period is timer={'period': '90s'}"),
        ({"every": timedelta(minutes=2)}, "a period is timer={'period': '120s'}"),
        ({"interval": None}, "a period is timer={'period': '5m'}"),
        ({"hours": 2}, "a period is timer={'period': '2h'}"),
        ({"cron": "*/5 * * * *"}, "unknown option 'cron': a schedule is timer={'period': '*/5 * * * *'}"),
        ({"schedule": "@daily"}, "a schedule is timer={'period': '@daily'}"),
        ({"timeout": 30}, "unknown option 'timeout': the limit of the work is timeout_seconds=30"),
        ({"retries": 4}, "retries are policies: retry=[{'errorEquals': '*', 'maxAttempts': 4}]"),
        ({"timezone": "Asia/Shanghai"}, "timer={'period': '0 6 * * *', 'timezone': 'Asia/Shanghai'}"),
        ({"async": True}, "asynchronous=True"),
        ({"tags": ["a"]}, "labels={'key': 'value'} describe a job"),
        ({"name": "x"}, "did you mean job_name?"),
        ({"zzz": 5}, "remove it or check its spelling"),
        ({"route": "shard"}, "unknown option 'route': it is a member of the step: step={'route': 'shard'}"),
        ({"headers": {"A": "b"}}, "it is a member of the step: step={'headers': {'A': 'b'}}"),
        ({"success_codes": [200]}, "it is a member of the step: step={'successCodes': [200]}"),
        ({"leaseSeconds": 5}, "it is a member of the step: step={'leaseSeconds': 5}"),
        ({"url": "http://x/"}, "takes no url: it is the function's own"),
        ({"method": "GET"}, "takes no method: functions are called by POST"),
        ({"id": "nightly"}, "unknown option 'id': the id of a job is job_id='nightly'"),
        ({"key": 5}, "the id of a job is job_id='nightly'"),
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


@each_row(
    ("retry", "said"),
    [
        (3, 'retry must be an array, not 3; write [{"errorEquals": "*", "maxAttempts": 3}]'),
        (True, 'not true; write [{"errorEquals": "*", "maxAttempts": 3}]'),
        ({"errorEquals": "500"}, "not an object; write it in [ and ], as a list of one policy"),
        (RetryPolicy(error_equals="500"), "not an object; write it in [ and ], as a list of one policy"),
    ],
)
def test_a_retry_that_is_no_list_is_answered_with_one(retry: Any, said: str) -> None:
    """A number is the usual guess: it becomes a policy."""
    with pytest.raises(DeclarationError) as caught:
        job(job_id="x", retry=retry)(lambda: None).define("files")
    assert said in str(caught.value)


@each_row("name", OTHER_WORDS)
def test_words_of_other_schedulers_are_translated(name: str) -> None:
    """Each is refused with an option that exists, whatever its value is."""
    for value in ("1", 1, None, {}):
        with pytest.raises(DeclarationError) as caught:
            job(**{name: value})(lambda: None)  # type: ignore[misc]
        assert any(f"{option}=" in str(caught.value) for option in JobOptions.__annotations__)
