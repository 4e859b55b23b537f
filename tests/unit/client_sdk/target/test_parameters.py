"""A function's parameters as those of a job (SPEC sections 11, 16)."""

from datetime import timedelta
from typing import Annotated, Any

import fastapi
import pytest
from pydantic import Field

from client_sdk.errors import DeclarationError
from client_sdk.target import Execution
from client_sdk.target.parameters import Parameters, WrongParameters
from scheduler_service.engine.params_schema import check_parameters
from tests.rows import each_row
from tests.unit.client_sdk.target.declared_job import Window, import_files


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


def make_window() -> Window:
    return Window(start=1)


def test_dependencies_of_other_frameworks_are_refused() -> None:
    """Nobody resolves them here, and a caller could supply the dependency: classes and provide do that."""

    def by_default(window: Window = fastapi.Depends(make_window)) -> None: ...  # noqa: B008

    def by_annotation(window: Annotated[Window, fastapi.Depends(make_window)]) -> None: ...

    def of_request(days: int = fastapi.Query(3)) -> None: ...

    for function, name in ((by_default, "window"), (by_annotation, "window"), (of_request, "days")):
        with pytest.raises(DeclarationError) as caught:
            Parameters(function)
        assert f"{function.__qualname__}: parameter {name} is " in str(caught.value)

    def constrained(days: Annotated[int, fastapi.Query(ge=1)] = 3) -> None: ...

    assert Parameters(constrained).schema["properties"]["days"]["minimum"] == 1
    for function in (by_default, by_annotation):
        with pytest.raises(DeclarationError, match="dependencies come by a class and provide=…"):
            Parameters(function)


@each_row(("count", "shown"), [(50, 50), (51, 51), (1_000, 51), (1_001, 1), (200_000, 1)])
def test_flaws_of_a_hostile_body_are_counted(count: int, shown: int) -> None:
    """Whoever may call a service may send a million wrong values: the answer stays small."""

    def work(one: int = 0) -> None: ...

    body = b"{" + b",".join(b'"%x":1' % name for name in range(count)) + b"}"
    with pytest.raises(WrongParameters) as raised:
        Parameters(work).read(body)
    assert len(raised.value.flaws) == shown
    assert len(str(raised.value)) < 10_000
    if count > 50:
        assert raised.value.flaws[-1].code == "too_many"
