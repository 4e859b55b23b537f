"""How many there are of what a list would have (SPEC section 10)."""

from client_sdk.models.answers.form import AnswerModel


class Total(AnswerModel):
    """How many; `is_capped`: at least so many, since no more were looked at."""

    value: int
    is_capped: bool


class JobCounts(AnswerModel):
    """Jobs by state, by kind of timer, and by what their newest execution came to."""

    total: Total
    by_state: dict[str, int]
    by_kind: dict[str, int]
    by_last_outcome: dict[str, int]
