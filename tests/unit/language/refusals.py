"""What the compilers of templates refuse, as text."""

import pytest

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.language.expression import Names
from scheduler_service.language.template import compile_text

NAMES = Names(environment=frozenset({"BASE", "HOST"}), resp_env_names=("LOGIN",))


def refusal(text: str) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        compile_text(text, names=NAMES)
    return caught.value
