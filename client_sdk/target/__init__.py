"""For targets: jobs declared in code, registration, calls and reports (SPEC section 16)."""

from client_sdk.target.declaration import Declaration, JobOptions, job
from client_sdk.target.execution import BlockingProgress, Execution, Progress
from client_sdk.target.service import Service

__all__ = ["BlockingProgress", "Declaration", "Execution", "JobOptions", "Progress", "Service", "job"]
