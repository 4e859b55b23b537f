"""The routes by which a browser signs in and out."""

from client_sdk.models import answers
from client_sdk.models.requests import SignIn
from scheduler_service.api import examples, sessions
from scheduler_service.api.request import Body, Operation, group
from scheduler_service.security.callers import Role

SESSIONS = group(
    "operation",
    Operation(
        route="GET /session",
        handler=sessions.show_session,
        role=Role.VIEWER,
        summary="Show who the caller is",
        data=answers.Session,
        statuses=(429,),
        is_open=True,
    ),
    Operation(
        route="POST /session",
        handler=sessions.sign_in,
        role=Role.VIEWER,
        summary="Sign in with a key, in a browser",
        body=Body(SignIn, examples.SIGN_IN, required=True),
        data=answers.Session,
        statuses=(401, 429),
        is_open=True,
    ),
    Operation(
        route="DELETE /session",
        handler=sessions.sign_out,
        role=Role.VIEWER,
        summary="Sign out, in a browser",
        data=answers.Session,
        is_open=True,
    ),
)
