"""The members of a definition that `fingerprint.OWN` names, read on their own."""

from collections.abc import Mapping
from typing import Any

import msgspec
from pydantic import ConfigDict, TypeAdapter

from client_sdk.models.definition import LabelName
from client_sdk.models.fields import FilledText, Text

_TEXT = msgspec.json.Decoder(str)
_ANY = msgspec.json.Decoder()


class OwnMembers:
    """Reads them by the rules of the model; those of the definition before are read once.

    In an array they are often the same, and reading them is an eighth of a creation from the cache.
    """

    def __init__(self) -> None:
        strict = ConfigDict(strict=True)
        self._filled = TypeAdapter[str](FilledText, config=strict).validator.validate_python
        self._text = TypeAdapter[str](Text, config=strict).validator.validate_python
        self._labels = TypeAdapter[dict[str, str]](dict[LabelName, Text], config=strict).validator
        self._key: tuple[msgspec.Raw | None, ...] = ()
        self._latest: Mapping[str, Any] = {}

    def read(self, members: Mapping[str, msgspec.Raw]) -> Mapping[str, Any]:
        """By name; not to be changed. Raises KeyError, msgspec.DecodeError, pydantic.ValidationError."""
        get = members.get
        key = get("jobName"), get("jobDescription"), get("objectId"), get("labels")
        if key != self._key:
            self._latest = self._read(members)
            # Copies: what is not decoded yet holds the whole text of its definition.
            self._key = tuple(None if one is None else one.copy() for one in key)
        return self._latest

    def _read(self, members: Mapping[str, msgspec.Raw]) -> dict[str, Any]:
        labels = _read_any(members, "labels")
        return {
            "jobName": self._filled(_TEXT.decode(members["jobName"])),
            "jobDescription": self._read_text(members, "jobDescription"),
            "objectId": self._read_text(members, "objectId"),
            "labels": {} if labels is None else self._labels.validate_python(labels),
        }

    def _read_text(self, members: Mapping[str, msgspec.Raw], name: str) -> object:
        value = _read_any(members, name)
        return None if value is None else self._text(value)


def _read_any(members: Mapping[str, msgspec.Raw], name: str) -> object:
    return _ANY.decode(members[name]) if name in members else None
