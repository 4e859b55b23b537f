"""The tenant of a job is in its key, and in the definition as compiled."""

from client_sdk.models import parse_definition
from scheduler_service.domain.job_key import read_job_key, write_job_key
from scheduler_service.engine.compile import compile_definition
from scheduler_service.engine.program import Surroundings
from tests.rows import each_row

DEFINITION = {
    "jobId": "one",
    "jobName": "n",
    "creator": "c",
    "creatorName": "c",
    "request": [{"url": "http://127.0.0.1:9/"}],
}


@each_row(
    ("tenant", "job_id", "key"),
    [("default", "one", "one"), ("acme", "one", "acme|one"), ("default", "a.b_c:d-e", "a.b_c:d-e")],
)
def test_a_key_names_tenant_and_job(tenant: str, job_id: str, key: str) -> None:
    """Jobs of the tenant `default` keep the keys that they had before there were tenants (SPEC section 2)."""
    assert write_job_key(tenant, job_id) == key
    assert read_job_key(key) == (tenant, job_id)


@each_row(("tenant", "key"), [("default", "one"), ("acme", "acme|one")])
def test_a_program_knows_its_key(tenant: str, key: str) -> None:
    """Hosts address a job by the key of its program; the target still sees the `jobId`."""
    program = compile_definition(parse_definition(DEFINITION), Surroundings(tenant=tenant)).program
    assert program.key == key
    assert program.job_id == "one"
