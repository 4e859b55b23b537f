"""Roles include those before them (SPEC section 14)."""

from scheduler_service.security.callers import LONGEST, Role, Session, SessionSeal
from tests.rows import each_row


def test_each_role_includes_those_before_it() -> None:
    """Viewer, operator, editor, admin."""
    roles = list(Role)
    assert roles == ["viewer", "operator", "editor", "admin"]
    for rank, role in enumerate(roles):
        assert [role.includes(other) for other in roles] == [other <= rank for other in range(len(roles))]


KEY = b"the key of the service"
SESSION = Session("default", Role.EDITOR, "Ünï ✓", 1_000)
SEAL = SessionSeal(key=KEY)


def test_what_was_written_is_read_everywhere() -> None:
    """By another process with the same key, too; the text fits into a cookie."""
    text = SEAL.write(SESSION)
    assert SessionSeal(key=KEY).read(text, now=999) == SESSION
    assert set(text) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
    assert len(text) < 200
    # At its moment, and with the key
    text = SEAL.write(SESSION)
    assert SEAL.read(text, now=1_000) is None
    assert SessionSeal(key=KEY + b"2").read(text, now=0) is None
    # The seal has a key of its own, so that no other signature of the key is a session
    forged = SessionSeal(key=b"")
    assert forged.write(SESSION) != SEAL.write(SESSION)


def test_any_other_letter_is_refused() -> None:
    """Each place of the text, changed to another letter of the alphabet; also what is cut or longer."""
    text = SEAL.write(SESSION)
    for place, letter in enumerate(text):
        other = "A" if letter != "A" else "B"
        assert SEAL.read(text[:place] + other + text[place + 1 :], now=0) is None, place
    for changed in (text[:-1], text + "A", text + "=", f" {text}", text.upper(), f"{text}.{text}"):
        assert SEAL.read(changed, now=0) is None


@each_row("text", ["", ".", "..", "1.", "1..", "1.e30.", "é", "\x00", "a" * (LONGEST + 1), "." * 500])
def test_what_is_no_session_is_none(text: str) -> None:
    """No text raises."""
    assert SEAL.read(text, now=0) is None
