"""The wire format of requests and answers, defined once
(SPEC sections 2, 3, 4, 5, 6, 7 and 10)."""

from client_sdk.models.definition import JobDefinition, Misfire, RetryPolicy, Timer
from client_sdk.models.fields import JOB_ID, JOB_ID_FORM, WireModel
from client_sdk.models.parse import (
    ModelError,
    Problem,
    find_foreign,
    parse_definition,
    parse_model,
    point_to_posted,
    write_pointer,
)
from client_sdk.models.requests import (
    Activation,
    BulkExecutions,
    BulkJobs,
    Cancellation,
    Claim,
    Completion,
    ExecutionAction,
    HeldPartName,
    JobAction,
    OutlookRequest,
    PreviewRequest,
    Renewal,
    ReplayRequest,
    TemplateRequest,
    TrialRequest,
)
from client_sdk.models.services import Heartbeat, InstanceRegistration, RateLimit, ServiceDeclaration
from client_sdk.models.step import CancelUrl, CheckUrl, Notification, RequestStep

__all__ = [
    "JOB_ID",
    "JOB_ID_FORM",
    "Activation",
    "BulkExecutions",
    "BulkJobs",
    "CancelUrl",
    "Cancellation",
    "CheckUrl",
    "Claim",
    "Completion",
    "ExecutionAction",
    "Heartbeat",
    "HeldPartName",
    "InstanceRegistration",
    "JobAction",
    "JobDefinition",
    "Misfire",
    "ModelError",
    "Notification",
    "OutlookRequest",
    "PreviewRequest",
    "Problem",
    "RateLimit",
    "Renewal",
    "ReplayRequest",
    "RequestStep",
    "RetryPolicy",
    "ServiceDeclaration",
    "TemplateRequest",
    "Timer",
    "TrialRequest",
    "WireModel",
    "find_foreign",
    "parse_definition",
    "parse_model",
    "point_to_posted",
    "write_pointer",
]
