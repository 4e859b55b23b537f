"""What texts say about the installation: from a checkout, for no index has the distribution."""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

from scheduler_service import DISTRIBUTION, __version__, how_to_install
from tests.rows import each_row
from tests.unit.docs.pages import ROOT, read

# In the public index `punctual` alone is another program, and nobody holds the name of the distribution:
# it would install what whoever takes it puts there.
OFFERS = re.compile(
    r"\b(?:pipx?|uv|poetry)\b[^\n|`]*?\b(?:install|add)\b[^\n|`]*?[\s'\"]punctual(?:-scheduler)?(?![\w/.-])"
    r"|(?<![\w-])punctual(?:-scheduler)?\[(?!console\]\",)"
)

TAG = re.compile(rf"{DISTRIBUTION}:([\w.-]+)")


def texts() -> Iterator[tuple[str, str]]:
    """(path, text) of every file of the checkout that git knows, but for this one."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, timeout=60, check=False
    )
    names = listed.stdout.split("\0")[:-1] or [
        str(path.relative_to(ROOT)) for path in ROOT.rglob("*.*") if ".venv" not in path.parts
    ]
    for name in names:
        path = ROOT / name
        if path.is_file() and path != Path(__file__).resolve():
            yield name, path.read_text(encoding="utf-8", errors="replace")


def test_no_text_offers_the_program_of_somebody_else() -> None:
    """No message, page, script or file of a container installs it by a name (SPEC section 16)."""
    offers = [f"{name}: {found[0]}" for name, text in texts() for found in OFFERS.finditer(text)]
    assert offers == []


@each_row(
    "offer",
    ["pip install punctual", "pipx install 'punctual'", "uv pip install -U punctual", "punctual[redis]"],
)
def test_such_an_offer_is_found(offer: str) -> None:
    """With blanks, quotes or an extra behind it; a checkout is none."""
    assert OFFERS.search(offer)
    assert OFFERS.search(offer.replace("punctual", DISTRIBUTION))
    assert not OFFERS.search(how_to_install("service", "redis"))


def test_the_distribution_and_its_command_have_their_names() -> None:
    """As SPEC section 16 says; README says it where it says how to install."""
    project = tomllib.loads(read("pyproject.toml"))["project"]
    assert project["name"] == DISTRIBUTION
    assert list(project["scripts"]) == ["punctual"]
    section = read("README.md").partition("\n## Install\n")[2].partition("\n## ")[0]
    assert f"`{DISTRIBUTION}`" in section
    assert all(word in section for word in ("pipx install", "pip install", "docker run", "docker compose"))


def test_all_places_name_one_version() -> None:
    """The package, the chart, what is rendered from it, the tags of images, and the newest release."""
    releases = re.findall(r"^## (\S+) - \d{4}-\d\d-\d\d$", read("CHANGELOG.md"), re.MULTILINE)
    chart = read("deploy/helm/punctual/Chart.yaml")
    named = {
        tomllib.loads(read("pyproject.toml"))["project"]["version"],
        releases[0],
        *re.findall(r"^(?:version|appVersion): (\S+)", chart, re.MULTILINE),
        *re.findall(r'app\.kubernetes\.io/version: "(.+)"', read("deploy/kubernetes/punctual.yaml")),
        *(found[1] for _, text in texts() for found in TAG.finditer(text)),
    }
    assert named == {__version__}
