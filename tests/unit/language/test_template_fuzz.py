"""Any template or path is compiled or refused, and evaluated within limits (SPEC section 4)."""

from collections.abc import Callable
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.domain.errors import DefinitionError, ExpressionError
from scheduler_service.language.expression import Names
from scheduler_service.language.jsonpath import NODES_MAX, Stopped, compile_path, evaluate
from scheduler_service.language.jsonpath_filters import Budget
from scheduler_service.language.template import compile_json, compile_text, compile_url
from tests.rows import each_row

MANY = 10_000
NAMES = Names(environment=frozenset({"BASE"}), resp_env_names=("ONE",))
BYTES = st.binary(max_size=MANY).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
SIGNS = ["${", "$${", "|json", "..", "-1", "==", "&&", *"}$.[]?@()'\"\\*:,0a!/\né"]
PIECES = st.lists(
    st.sampled_from([*SIGNS, "schedulingJobId", "BASE", "http://", "match(", "search(", "count("]),
    max_size=2_000,
).map(lambda pieces: "".join(pieces)[:MANY])
REPEATED = st.builds(lambda piece, count: (piece * count)[:MANY], PIECES.filter(bool), st.integers(1, 1_000))
TEXTS = BYTES | PIECES | REPEATED


def refusal(compiling: Callable[..., object], text: str) -> ExpressionError | None:
    try:
        compiling(text, names=NAMES)
    except ExpressionError as error:
        return error
    return None


@given(TEXTS)
def test_any_text_is_compiled_or_refused(text: str) -> None:
    """Each compiler raises its own error or nothing, with a place inside the text."""
    for compiling in (compile_text, compile_url):
        error = refusal(compiling, text)
        assert error is None or error.column is None or 0 <= error.column <= len(text)
    with suppress(DefinitionError):
        compile_json({"a": [text]}, names=NAMES)


@given(
    TEXTS,
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda x: st.lists(x) | st.dictionaries(st.text(max_size=2), x),
        max_leaves=20,
    ),
)
def test_any_path_is_compiled_or_refused_and_never_raises(text: str, root: object) -> None:
    """What compiles is evaluated to a value, whatever the document."""
    for path in (text, "$" + text, f"$[?{text}]"):
        with suppress(ExpressionError):
            evaluate(compile_path(path), root, Budget(1_000))


@each_row(
    "path",
    [
        "$..*..*..*",
        "$..[?@..[?@..a]]",
        "$[?count(@..*)>1]",
        "$[?match(@.a, '(a{1,90}){1,90}')]",
        "$..[*,*,*,*]..[*,*]",
    ],
)
def test_an_evaluation_visits_so_many_values_and_no_more(path: str) -> None:
    """Steps are counted, not seconds: the same answer on every machine (SPEC section 4)."""
    root: object = {"a": "a" * 5_000}
    for _ in range(6):
        root = [root] * 7
    budget = Budget(NODES_MAX)
    found = evaluate(compile_path(path), root, budget)
    assert isinstance(found, Stopped | list)
    assert budget.left > -NODES_MAX
