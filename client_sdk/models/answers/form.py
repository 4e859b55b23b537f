"""The form that all answers have in common (SPEC section 10)."""

from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Item = TypeVar("Item")


class AnswerModel(BaseModel):
    """The root of all answers: camelCase; unknown members of later versions are kept."""

    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, frozen=True, extra="allow"
    )


class ProblemError(AnswerModel):
    """One error or warning: its place (RFC 6901), its code, and a message."""

    pointer: str
    code: str
    message: str


class ProblemDetails(AnswerModel):
    """The answer to every failed call (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[ProblemError]
    resp_code: int = Field(alias="resp_code")
    resp_msg: str = Field(alias="resp_msg")


class Listing(AnswerModel, Generic[Item]):
    """A slice of a list; `nextCursor` null: it ends here."""

    items: list[Item]
    next_cursor: str | None
