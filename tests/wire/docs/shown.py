"""Compares what a command printed with what a page shows; `…` stands for what varies."""

import re
from collections.abc import Mapping, Sequence

ANY = "…"
ID = re.compile(r"[0-9a-f]{2,8}…(?:-\d+)?(?![\w…])")
_PLAIN = re.compile(r"[ \t]+")


def compare(shown: Sequence[str], printed: str, known: dict[str, str]) -> bool:
    """Whether they fit; the ids that were printed are then in `known`. How wide a gap is does not matter."""
    texts = [_plain(line) for line in printed.strip("\n").splitlines()]
    patterns = [_plain(line) for line in shown]
    names: dict[str, str] = {}
    whole = "".join(_line(pattern, known, names) for pattern in patterns)
    found = re.fullmatch(whole, "".join(f"{text}\n" for text in texts))
    if found is None:
        return False
    known.update({token: found[name] for name, token in names.items()})
    return True


def fill_in(command: str, known: Mapping[str, str]) -> str:
    """The command with the ids that it names."""
    return ID.sub(lambda match: known.get(match[0], match[0]), command)


def _plain(line: str) -> str:
    return _PLAIN.sub(" ", line.rstrip())


def _line(pattern: str, known: Mapping[str, str], names: dict[str, str]) -> str:
    """The expression of one line; `names` gets the groups of ids that are not known yet."""
    if pattern == ANY:
        return "(?:.*\n)*?"
    parts, at = [], 0
    for match in ID.finditer(pattern):
        parts += [_text(pattern[at : match.start()]), _id(match[0], known, names)]
        at = match.end()
    return "".join([*parts, _text(pattern[at:]), "\n"])


def _text(pattern: str) -> str:
    return ".*".join(re.escape(part) for part in pattern.split(ANY))


def _id(token: str, known: Mapping[str, str], names: dict[str, str]) -> str:
    if token in known:
        return re.escape(known[token])
    earlier = next((name for name, named in names.items() if named == token), None)
    if earlier is not None:
        return f"(?P={earlier})"
    name = f"id{len(names)}"
    names[name] = token
    return rf"(?P<{name}>[0-9a-f]+{re.escape(token.partition(ANY)[2])})"
