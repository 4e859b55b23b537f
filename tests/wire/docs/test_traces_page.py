"""docs/traces.md: a service that is started as the page says exports a trace."""

import re
from pathlib import Path

import httpx

from tests.otlp_collector import check_tree, collecting
from tests.unit.docs.pages import read
from tests.wire.processes.process import serve

COMMAND = re.compile(r"\$ (OTEL_\w+)=http://localhost:4318 punctual serve\n")
JOB = {"jobName": "first", "creator": "1", "creatorName": "one", "timer": {"period": "external"}}


def test_a_service_that_is_started_as_the_page_says_exports_a_trace(tmp_path: Path) -> None:
    """To the collector that the variable names."""
    (variable,) = COMMAND.findall(read("docs/traces.md"))
    with collecting() as collector, serve(tmp_path / "data", **{variable: collector.url}) as process:
        url = process.wait_for_url()
        with httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
            request = [{"url": f"{url}/health/live", "method": "GET"}]
            created = client.post("/jobs/first", json=JOB | {"request": request})
            assert created.status_code == 201, created.text
            assert client.post("/jobs/first/trigger", json={}).status_code == 200
        collector.wait_for(lambda found: bool(found.named("execution")), "the execution")
        spans = [span for span in collector.spans.values() if span.attributes["punctual.job_id"] == "first"]
        assert process.stop() == 0
    check_tree((span.trace, span.span, span.parent) for span in spans)
    assert sorted(span.name for span in spans) == ["attempt", "execution", "step 0"]
    assert collector.headers[0]["path"] == "/v1/traces"
