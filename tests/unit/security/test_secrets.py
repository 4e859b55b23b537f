"""The sources of secrets: settings, and files that are read again when they change (SPEC section 14)."""

import json
import os
from pathlib import Path

import pytest

from scheduler_service.domain.secret_places import secret_values, speaks_of_secret
from scheduler_service.security.secrets import (
    MOST_BYTES,
    MOST_FORMER,
    SecretFiles,
    SecretMasks,
    read_text,
    read_values,
)
from tests.rows import each_row


def replace(path: Path, text: str) -> None:
    """Another file takes its place, as Kubernetes and careful scripts do it."""
    beside = path.with_name(f"..{path.name}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def test_a_file_is_a_secret_and_read_again_when_it_changes(tmp_path: Path) -> None:
    """The line end behind the value is not of it; a file that has gone is no secret any more."""
    files = SecretFiles(tmp_path)
    path = tmp_path / "TOKEN"
    assert files.find("default", "TOKEN") == ()
    path.write_text("first value\n", encoding="utf-8")
    assert files.find("default", "TOKEN") == ("first value",)
    replace(path, "other value\r\n")
    assert files.find("default", "TOKEN") == ("other value",)
    replace(path, json.dumps(["newest", "before"]))
    assert files.find("default", "TOKEN") == ("newest", "before")
    path.unlink()
    assert files.find("default", "TOKEN") == ()


def test_links_are_followed_as_kubernetes_makes_them(tmp_path: Path) -> None:
    """A mounted secret is a link into a folder that is exchanged as a whole."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "TOKEN").write_text(f"value {name}", encoding="utf-8")
    data = tmp_path / "..data"
    data.symlink_to("one")
    (tmp_path / "TOKEN").symlink_to("..data/TOKEN")
    files = SecretFiles(tmp_path)
    assert files.find("default", "TOKEN") == ("value one",)
    new = tmp_path / "..new"
    new.symlink_to("two")
    new.replace(data)
    assert files.find("default", "TOKEN") == ("value two",)


def test_each_tenant_has_a_folder_of_its_own(tmp_path: Path) -> None:
    """One tenant's files are none of another; the folder itself is that of the tenant default."""
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "TOKEN").write_text("of the team", encoding="utf-8")
    (tmp_path / "TOKEN").write_text("of default", encoding="utf-8")
    files = SecretFiles(tmp_path)
    assert files.find("team", "TOKEN") == ("of the team",)
    assert files.find("default", "TOKEN") == ("of default",)
    assert files.find("other", "TOKEN") == ()
    assert files.find("default", "team") == ()


@each_row("name", ["../TOKEN", "team/TOKEN", "", ".", "..", "A B", "1A", "a" * 129])
def test_a_name_leads_to_no_other_file(tmp_path: Path, name: str) -> None:
    """What is no name of a secret is looked up nowhere."""
    folder = tmp_path / "secrets"
    (folder / "team").mkdir(parents=True, exist_ok=True)
    (tmp_path / "TOKEN").write_text("outside", encoding="utf-8")
    (folder / "team" / "TOKEN").write_text("of the team", encoding="utf-8")
    assert SecretFiles(folder).find("default", name) == ()
    assert SecretFiles(folder).find("..", "TOKEN") == ()


def test_what_is_no_file_with_a_value_is_none(tmp_path: Path) -> None:
    """A pipe would stop the service, a device has no end; too long, too short and no text are none."""
    os.mkfifo(tmp_path / "PIPE")
    (tmp_path / "LONG").write_text("x" * (3 * MOST_BYTES), encoding="utf-8")
    (tmp_path / "SHORT").write_text("abc\n", encoding="utf-8")
    (tmp_path / "BYTES").write_bytes(b"\xff\xfe\xfd\xfc")
    (tmp_path / "DEVICE").symlink_to("/dev/zero")
    files = SecretFiles(tmp_path)
    for name in ("PIPE", "LONG", "SHORT", "BYTES", "DEVICE"):
        assert files.find("default", name) == (), name


def test_values_of_a_folder_that_is_away_stay_hidden(tmp_path: Path) -> None:
    """However many; a mount that fails leaves an empty folder, or none. None of them is sent meanwhile."""
    folder, away = tmp_path / "secrets", tmp_path / "away"
    folder.mkdir()
    names = [f"S{number}" for number in range(MOST_FORMER + 100)]
    for name in names:
        (folder / name).write_text(f"value-of-{name}", encoding="utf-8")
    files = SecretFiles(folder)
    seconds = iter(range(0, 100, 5))
    masks = SecretMasks(sources=[files], environments={}, read_clock=lambda: float(next(seconds)))
    values = " ".join(f"value-of-{name}" for name in names)

    def hidden() -> str:
        mask = masks.of_tenant("default")
        assert mask is not None
        return mask.text(values)

    whole = " ".join(["***"] * len(names))
    assert hidden() == whole
    folder.rename(away)
    assert (hidden(), files.find("default", "S0")) == (whole, ())
    folder.mkdir()
    assert hidden() == whole
    folder.rmdir()
    away.rename(folder)
    (folder / "S0").unlink()
    assert (hidden(), len(list(files.values("default")))) == (whole, len(names) - 1)


@each_row(
    "given", ["abc", "", [], ["long enough", "abc"], ["first", "second", "third"], [1234], 1234, {"a": 1}]
)
def test_a_wrong_value_is_refused_without_showing_it(given: object) -> None:
    """The message says the form, and has nothing of the value."""
    with pytest.raises(ValueError, match=r"secret|value") as caught:
        read_values(given)
    assert "first" not in str(caught.value)
    assert "long enough" not in str(caught.value)


@each_row(
    ("text", "values"),
    [
        ("plain text", ("plain text",)),
        ('["newest", "before"]', ("newest", "before")),
        ('{"type": "service_account"}', ('{"type": "service_account"}',)),
        ("[1, 2]", ("[1, 2]",)),
        ("[no list", ("[no list",)),
    ],
)
def test_a_json_list_of_texts_is_two_values(text: str, values: tuple[str, ...]) -> None:
    """All else that a variable or a file has is one value as it is."""
    assert read_values(read_text(text)) == values


@each_row(
    ("name", "speaks"),
    [
        ("API_KEY", True),
        ("apiKey", True),
        ("SHOP_TOKEN", True),
        ("DbPassword", True),
        ("shoptoken", True),
        ("CLIENT_SECRET_2", True),
        ("REGION", False),
        ("KEYBOARD", False),
        ("BASE_URL", False),
    ],
)
def test_names_of_variables_that_speak_of_secrets(name: str, speaks: bool) -> None:
    """As in SPEC section 14: a key, a token, a secret, a password."""
    assert speaks_of_secret(name) is speaks


@each_row(
    ("name", "value", "is_masked"),
    [
        ("CACHE_KEY", "prod", False),
        ("PARTITION_KEY", "europe-west production", False),
        ("ADMIN_PASSWORD", "admin", False),
        ("DB_PASSWORD", "hunter2", True),
        ("DB_PASSWORD", "correct-horse-battery", True),
        ("API_KEY", "kdjfhgkdjfhgksdfjh", True),
        ("API_KEY", "k-1", False),
        ("SHOP_API_KEY", "kJhGfDsAqWeRtY", True),
        ("shopApiKey", "swordfish", True),
        ("APIKEY", "swordfish", True),
        ("SHOP_TOKEN", "t0p!", True),
        ("REGION", "2c96f3b8d1e04a57", False),
    ],
)
def test_values_of_variables_that_are_masked_where_they_stand(name: str, value: str, is_masked: bool) -> None:
    """What people write in bodies is not: it would be masked there, and take a redirect its body."""
    assert secret_values({name: value}) == ([value] if is_masked else [])
