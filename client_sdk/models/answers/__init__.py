"""The members of `data` in the answers (SPEC section 10, the table of shapes), for readers and OpenAPI."""

from client_sdk.models.answers.executions import *  # noqa: F403
from client_sdk.models.answers.form import *  # noqa: F403
from client_sdk.models.answers.jobs import *  # noqa: F403
from client_sdk.models.answers.operation import *  # noqa: F403
from client_sdk.models.answers.services import *  # noqa: F403
from client_sdk.models.answers.timers import *  # noqa: F403
