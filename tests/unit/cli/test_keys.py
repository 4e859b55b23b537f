"""punctual keys: on a data folder without a service (SPEC section 14)."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.running import Ran


def read(ran: Ran, *arguments: str, data: Path) -> Any:
    """What a command that succeeds prints as JSON."""
    code, printed, said = ran("keys", *arguments, "--data", str(data), "-o", "json")
    assert code == 0, said
    return json.loads(printed)


def test_keys_are_managed_on_the_data_folder(ran: Ran, tmp_path: Path) -> None:
    """Made, listed, rotated, revoked; the text of one is printed when it is made, and never again."""
    data = tmp_path / "new"
    made = read(ran, "create", "ci", "--role", "editor", "--label", "team:ops", "--expires", "90d", data=data)
    assert made["key"].startswith(f"pk_{made['keyId']}_")
    assert (made["role"], made["labels"], made["state"]) == ("editor", ["team:ops"], "living")
    code, printed, _ = ran("keys", "list", "--data", str(data))
    assert code == 0
    assert made["keyId"] in printed
    assert made["key"].removeprefix(f"pk_{made['keyId']}_") not in printed
    rotated = read(ran, "rotate", made["keyId"], "--overlap", "1h", data=data)
    assert (rotated["keyId"], rotated["rotations"]) == (made["keyId"], 1)
    assert rotated["key"] != made["key"]
    for overlap, refusal in (("31d", "2592000"), ("1h", "without an overlap")):
        code, _, said = ran("keys", "rotate", made["keyId"], "--overlap", overlap, "--data", str(data))
        assert (code, refusal in said) == (1, True), said
    assert ran("keys", "revoke", made["keyId"], "--data", str(data))[0] == 0
    (listed,) = read(ran, "list", data=data)["items"]
    assert listed["state"] == "revoked"
    code, _, said = ran("keys", "rotate", made["keyId"], "--data", str(data))
    assert (code, "no living key" in said) == (1, True)


def test_what_no_key_can_be_is_refused(ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name, before anything is made; a folder that is not there has no keys."""
    code, _, said = ran("keys", "create", "a", "--role", "owner", "--data", str(tmp_path))
    assert (code, "role" in said) == (1, True), said
    read(ran, "create", "a", "--tenant", "Acme", data=tmp_path)
    for wrong, said_of in (
        (("Admin",), "who the service itself"),
        (("b", "--tenant", "DEFAULT"), "differs from 'default' by case"),
        (("b", "--tenant", "acme"), "differs from 'Acme' by case"),
        (("A", "--tenant", "Acme"), "has the name 'a'"),
        (("b", "--tenant", "a|b"), "tenant"),
        (("b", "--label", "team"), "labels"),
        (("b", "--role", "admin", "--label", "team:ops"), "for the whole tenant"),
        (("b", "--expires", "2020-01-01T00:00:00Z"), "future"),
    ):
        code, _, said = ran("keys", "create", *wrong, "--data", str(tmp_path))
        assert (code, said_of in said) == (1, True), said
    assert len(read(ran, "list", "--tenant", "Acme", data=tmp_path)["items"]) == 1
    assert read(ran, "list", data=tmp_path)["items"] == []
    code, _, said = ran("keys", "list", "--data", str(tmp_path / "none"))
    assert (code, "is missing" in said, (tmp_path / "none").exists()) == (1, True, False), said
    code, _, said = ran("keys", "list", "--data", "d", "--url", "http://127.0.0.1:1")
    assert (code, "give one" in said) == (2, True), said
    monkeypatch.setenv("PUNCTUAL_URL", "http://127.0.0.1:1")
    assert ran("keys", "list")[0] == 3, "the service that is named is asked"
