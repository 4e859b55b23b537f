"""Jobs declared in code (SPEC sections 11, 16)."""

from datetime import timedelta
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from client_sdk import Client
from client_sdk.errors import DeclarationError
from client_sdk.models import RetryPolicy, Timer, parse_definition
from client_sdk.target import Execution, Service, job
from client_sdk.target.parameters import Parameters, WrongParameters
from scheduler_service.engine.compile import compile_definition
from scheduler_service.engine.parameters import check_parameters
from scheduler_service.engine.program import Surroundings


class Window(BaseModel):
    """A model among the parameters."""

    start: int
    end: int = 10


@job()
def nightly() -> None:
    """Cleans up.

    In depth.
    """


@job(
    job_id="import",
    job_name="Import",
    job_description="Imports files",
    creator="ops",
    timer=Timer(period="0 0/5 * * * ?"),
    asynchronous=True,
    timeout_seconds=600,
    retry=[RetryPolicy(error_equals="E1"), {"errorEquals": ["500"], "maxAttempts": 1}],
    labels={"team": "ops"},
    step={"timeoutSeconds": 5, "headers": {"X-Mine": "1"}},
)
async def import_files(folder: str = "in", *, window: Window | None = None) -> dict[str, Any]:
    return {"folder": folder, "window": window}


def compiled(definition: dict[str, Any]) -> Any:
    return compile_definition(parse_definition(definition), Surroundings()).program


def test_defaults() -> None:
    """jobId is service.module.qualname, jobName the function's name, jobDescription its docstring."""
    definition = nightly.define("reports", prefix="/punctual")
    job_id = f"reports.{__name__}.nightly"
    assert definition == {
        "jobId": job_id,
        "jobName": "nightly",
        "jobDescription": "Cleans up.\n\nIn depth.",
        "creator": "reports",
        "creatorName": "reports",
        "timer": {"period": "external"},
        "paramsSchema": {
            "title": "nightly",
            "type": "object",
            "properties": {},
            "additionalProperties": False,
        },
        "request": [{"url": f"service://reports/punctual/jobs/{job_id}", "body": "${trigger}|json"}],
    }
    assert compiled(definition).timer.kind == "external"


def test_every_member_can_be_given() -> None:
    """As it is named in a definition; an asynchronous job is given its feedback URL, and can be cancelled."""
    definition = import_files.define("files")
    assert definition["jobId"] == "import"
    assert (definition["jobName"], definition["jobDescription"]) == ("Import", "Imports files")
    assert (definition["creator"], definition["async"], definition["timeoutSeconds"]) == ("ops", True, 600)
    assert definition["retry"] == [{"errorEquals": "E1"}, {"errorEquals": ["500"], "maxAttempts": 1}]
    [step] = definition["request"]
    assert step["headers"] == {"X-Mine": "1", "Feedback-Url": "${schedulingFeedbackUrl}"}
    assert step["timeoutSeconds"] == 5
    assert definition["cancelUrl"]["url"] == "service://files/jobs/import/cancel"
    assert compiled(definition).asynchronous


def test_a_declared_function_is_still_a_function() -> None:
    """With its arguments and its result."""
    assert nightly() is None
    assert nightly.__doc__ is not None


def test_parameters_are_described_and_read() -> None:
    """The schema that refuses a wrong trigger and the reading of the body say the same."""
    schema = import_files.define("files")["paramsSchema"]
    for wrong in ({"folder": 7}, {"window": {}}, {"other": 1}):
        assert check_parameters(schema, wrong)
        with pytest.raises(WrongParameters):
            import_files.parameters.take(wrong)
    given = {"folder": "out", "window": {"start": 1}}
    assert check_parameters(schema, given) == []
    assert import_files.parameters.take(given) == {"folder": "out", "window": Window(start=1, end=10)}
    assert import_files.parameters.read(b"") == {"folder": "in", "window": None}


def test_parameters_take_what_pydantic_takes() -> None:
    """Constraints, defaults that are made anew, names that pydantic has itself, and the rest in **."""

    def work(
        model_config: Annotated[int, Field(ge=1)],
        json: list[str],
        pause: timedelta = timedelta(seconds=1),
        *,
        execution: Execution,
        **rest: Any,
    ) -> None: ...

    parameters = Parameters(work)
    read = parameters.read(b'{"model_config": 2, "json": ["a"], "pause": 3, "more": [1]}')
    assert read == {"model_config": 2, "json": ["a"], "pause": timedelta(seconds=3), "more": [1]}
    assert parameters.required == ["model_config", "json"]
    assert "execution" not in parameters.schema["properties"]
    execution = Execution(job_id="one")
    assert parameters.fill(read, execution)["execution"] is execution
    with pytest.raises(WrongParameters) as caught:
        parameters.read(b'{"model_config": 0, "json": ["a", 7]}')
    assert [flaw.pointer for flaw in caught.value.flaws] == ["/model_config", "/json/1"]


def test_a_shard_knows_its_place() -> None:
    """The scheduler writes it into headers; what routing takes goes into the step."""

    @job(step={"route": "shard", "tags": ["big"]})
    def scan(execution: Execution) -> None: ...

    [step] = scan.define("files")["request"]
    assert step["headers"] == {
        "Shard-Index": "${schedulingShardIndex}",
        "Shard-Total": "${schedulingShardTotal}",
    }
    assert (step["route"], step["tags"]) == ("shard", ["big"])


def test_work_may_go_to_a_queue_and_be_signed() -> None:
    """Then nobody is called."""

    @job(queue="imports")
    def fetch(name: str) -> None: ...

    [step] = fetch.define("files", sign="hooks")["request"]
    assert step == {"url": "queue://imports", "body": "${trigger}|json", "sign": "hooks"}


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
        ({"step": {"url": "queue://work"}}, "step takes no url: it leads to the function; work for a queue"),
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


@pytest.mark.anyio
async def test_work_of_a_queue_is_no_services() -> None:
    """A service is called and claims nothing: such a job would wait for ever."""

    @job(job_id="fetch", queue="imports")
    def fetch() -> None: ...

    async with Client("http://scheduler.test") as client:
        service = Service("files", client=client, address="http://127.0.0.1:9", signals=())
        with pytest.raises(DeclarationError, match="give it to a Worker"):
            service.add(fetch)
        with pytest.raises(DeclarationError, match="fetch goes to queue imports"):
            Service("files", client=client, address="http://127.0.0.1:9", jobs=[fetch], signals=())
    assert service.definitions() == []
