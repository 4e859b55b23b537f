"""What all groups of settings have in common: their base class, and the kinds of their numbers."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

Positive = Annotated[float, Field(gt=0, le=1_000_000_000)]
Seconds = Annotated[float, Field(ge=0, le=1_000_000_000)]
Count = Annotated[int, Field(ge=0, le=1_000_000_000)]
PositiveCount = Annotated[int, Field(ge=1, le=1_000_000_000)]


class Group(BaseModel):
    """The base class of all groups: frozen; unknown names are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_switch(cls, value: object, info: ValidationInfo) -> object:
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation is not bool:
            raise ValueError("true and false are for switches only")
        return value
