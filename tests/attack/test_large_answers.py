"""Large answers that come at one moment: what they take in memory does not depend on their number."""

import gzip
from pathlib import Path

import pytest

from tests.attack.bystander import open_bystander
from tests.attack.service import job, open_service
from tests.attack.target import at_one_moment
from tests.certificate import Certificate, server_context
from tests.unit.transport.servers import Stage

pytestmark = pytest.mark.timeout(120)

CALLS = 400
PLAIN = b'"%s"' % (b"0123456789" * 100_000)
PACKED = gzip.compress(PLAIN)
HEADS = {
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(PLAIN),
    "packed": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(PACKED),
}
ANSWERS = {
    "length": HEADS["length"] + PLAIN,
    "packed": HEADS["packed"] + PACKED,
    "tls": HEADS["length"] + PLAIN,
}


@pytest.mark.parametrize(
    "kind", ["packed", *(pytest.param(one, marks=pytest.mark.long) for one in ("length", "tls"))]
)
async def test_hundreds_of_large_answers_at_one_moment(
    stage: Stage, tmp_path: Path, certificate: Certificate, kind: str
) -> None:
    """All of them are read, and each execution succeeds; those of the bystander go on."""
    handle = at_one_moment(CALLS, ANSWERS[kind])
    context = server_context(certificate) if kind == "tls" else None
    target = await stage.server(handle, backlog=CALLS, ssl=context)
    url = f"{'https' if context else 'http'}://127.0.0.1:{target.port}/run"
    trust = {"SSL_CERT_FILE": str(certificate.path)}
    async with (
        open_service(tmp_path / "data", environ=trust) as service,
        open_bystander(service) as bystander,
    ):
        labels = {"answers": "large"}
        jobs = [job(f"large-{number}", url, labels=labels) for number in range(CALLS)]
        answer = await service.run.ask("POST", "/jobs", json=jobs)
        assert answer.status_code == 200, answer.text

        async def have_succeeded() -> bool:
            found = await service.run.read("/counts/executions", label="answers:large")
            return bool(found["byState"].get("succeeded") == CALLS)

        await service.run.until(have_succeeded, f"{CALLS} executions have succeeded")
        await bystander.check()
