"""Divides texts and styles between the page and the screens, so that each comes with what uses it."""

import json
import re
from collections.abc import Collection, Mapping

from scheduler_service.console.modules import Bundle

_NAMED = re.compile(r"[\"'`]([A-Za-z]\w*(?:\.\w+)+)[\"'`]")
_BEGUN = re.compile(r"`([A-Za-z]\w*\.[\w.]*)\$\{")
_FORM = re.compile(r"\.(?:zero|one|two|few|many|other)$")
_STYLE = re.compile(r"styles/50-([\w-]+)\.css")


def screens_of(paths: Collection[str]) -> list[str]:
    """The names of the screens: the folders below `screens` that have a `screen.js`."""
    return [
        path.split("/")[1] for path in paths if path.startswith("screens/") and path.endswith("/screen.js")
    ]


class TextUse:
    """Which modules name which texts. `modules` maps paths to sources."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        named = {path: _Names(text) for path, text in modules.items()}
        self._elsewhere = {
            name: [names for path, names in named.items() if not path.startswith(f"screens/{name}/")]
            for name in screens_of(modules)
        }

    def divide(self, texts: Mapping[str, str]) -> dict[str, dict[str, str]]:
        """The texts of one language by the screen with which they travel; those of "" come with the page.

        A text whose key begins with the name of a screen travels with it, unless a module elsewhere names
        the key: whole (without its plural form), or by the begin of a template, as `jobs.${name}`.
        """
        divided: dict[str, dict[str, str]] = {name: {} for name in ("", *self._elsewhere)}
        for key, text in texts.items():
            name = key.partition(".")[0]
            is_its_own = name in self._elsewhere and not any(one.hold(key) for one in self._elsewhere[name])
            divided[name if is_its_own else ""][key] = text
        return divided


class _Names:
    """The keys that a module names."""

    def __init__(self, text: str) -> None:
        self._whole = frozenset(_NAMED.findall(text))
        self._begun = tuple(set(_BEGUN.findall(text)))

    def hold(self, key: str) -> bool:
        return key in self._whole or _FORM.sub("", key) in self._whole or key.startswith(self._begun)


def screen_of_style(path: str, screens: Collection[str]) -> str | None:
    """The screen with which `styles/50-NAME.css` or `styles/50-NAME-MORE.css` travels; None: the page."""
    found = _STYLE.fullmatch(path)
    name = found[1] if found else ""
    while name and name not in screens:
        name = name.rpartition("-")[0]
    return name or None


def write_screen(bundle: Bundle, *, texts: Mapping[str, str], styles: str) -> str:
    """The file of a screen in one language: its modules, and `{texts, styles}` as its default export."""
    carried = write_json({"texts": texts, "styles": styles})
    return f"{bundle.text}export default {carried};\n"


def write_json(value: object) -> str:
    """JSON without blanks, which is JavaScript as well (ECMA-262 since 2019)."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
