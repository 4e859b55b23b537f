"""What the demo prints."""

from scheduler_service.demo.running import describe_demo, describe_retry
from scheduler_service.domain.records import AttemptEnded


def test_the_demo_says_what_runs_and_where_to_look() -> None:
    """The addresses are whole; why a job fails is explained; the crash is announced where it is shown."""
    lines = describe_demo("http://127.0.0.1:1", shows_crash=True)
    assert lines[0].startswith("Punctual answers at http://127.0.0.1:1 ")
    for path in ("/console/", "/docs", "/executions?jobId=demo-flaky", "/stats"):
        assert any(line.split()[0] == f"http://127.0.0.1:1{path}" for line in lines)
    assert any("on purpose" in line for line in lines)
    assert any("kill -9" in line for line in lines)
    assert not any("kill -9" in line for line in describe_demo("http://127.0.0.1:1", shows_crash=False))


def test_a_retry_is_explained() -> None:
    """With its error and its wait."""
    record = AttemptEnded(execute_number=2, request_counts=4, at=0, error="503", retry_in=1500)
    assert describe_retry("demo-flaky", record) == (
        "1970-01-01T00:00:00.000Z  demo-flaky   #2    failed with 503: its retry policy has it wait 1500 ms, "
        "then the whole chain is tried again"
    )
