"""The content of ${…}: its grammar, its place and the remedy for a mistake (SPEC section 4)."""

from scheduler_service.language.template import compile_text
from tests.rows import each_row
from tests.unit.language.refusals import NAMES, refusal


@each_row(
    ("text", "column", "hint"),
    [
        ("ab ${name", 3, "$${"),
        ("${}", 2, "empty"),
        ("${ }", 2, "empty"),
        ("${a-b}", 2, "${$.member}"),
        ("${ex(1)}", 2, "${$.member}"),
        ("x${$.a[}", 7, "JSONPath"),
        ("${responses[0].x responses[1].y}", 2, "${responses[0].x} ${responses[1].y}"),
        ("${a b}", 2, "${a} ${b}"),
        ("${a${b}}", 2, "one after the other"),
        ("${$.student|json}", 2, "${$.student}|json"),
        ("${student | json}", 2, "${student}|json"),
        ("${schedulingBogus}", 2, "schedulingJobId"),
        ("${schedulingNotifyBody}", 2, "has no value here"),
        ("${schedulingBogus.a}", 2, "not a system variable; there are schedulingExecuteNumber, "),
        ("${schedulingjobid}", 2, "not a system variable; did you mean schedulingJobId?"),
        ("${a}|json", 0, "${a}"),
        ("x\r\ny", 1, "control"),
        ("${" + "a" * 1_001 + "}", 2, "1001"),
    ],
)
def test_bad_syntax_is_refused_with_its_place_and_a_remedy(text: str, column: int, hint: str) -> None:
    """SPEC section 4: everything that can be known when the job is created is checked then."""
    error = refusal(text)
    assert error.column is not None
    assert abs(error.column - column) <= (4 if "JSONPath" in hint else 0)
    assert hint in error.message


def test_a_brace_within_quotes_does_not_end_an_expression() -> None:
    """RFC 9535: a name or a pattern may hold braces."""
    template = compile_text("""${$['a}b']}-${$.x[?match(@, "a{2}")]}""", names=NAMES)
    assert template.members == {"a}b", "x"}


@each_row(
    ("text", "said", "column"),
    [
        ("x ${a, b}", "write ${a} ${b}", 4),
        ("${ a }", "has blanks beside it; write ${a}", 2),
        ("${$['a' 'b']}", "a comma is missing between two selectors", 9),
        ("${$[?@.a=1]}", "'=' compares nothing; write ==", 8),
        ("${a.b-c}", "write other names in brackets, as in ['a-b']", 5),
        ("${$..}", "bald descendant segment", 5),
    ],
)
def test_a_mistake_gets_its_remedy_and_its_column(text: str, said: str, column: int) -> None:
    """The message names what to write instead, and the place inside the text (SPEC section 4: 422)."""
    error = refusal(text)
    assert said in error.message
    assert error.column == column
    assert error.full_message.endswith(f"(column {column + 1})")
