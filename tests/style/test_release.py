"""The long description of a release has no link that leads nowhere, the bounds of `pyproject.toml` are of one form, and all is locked."""

import re
import runpy
import sys
import tomllib
import types
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SITE = "https://example.org/pyhudi/"


@pytest.fixture
def described(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    """The function of ``hatch_build.py``; hatchling, which calls it in a build, is not installed here."""
    base = types.SimpleNamespace(MetadataHookInterface=object)
    monkeypatch.setitem(sys.modules, "hatchling.metadata.plugin.interface", base)
    made: Callable[[str, str], str] = runpy.run_path(str(ROOT / "hatch_build.py"))["described"]
    return made


@pytest.mark.parametrize(
    ("text", "without", "on_the_site"),
    [
        ("[locks](docs/locks.md)", "locks", f"[locks]({SITE}locks/)"),
        ("[limits](docs/merging.md#limits)", "limits", f"[limits]({SITE}merging/#limits)"),
        ("[start](docs/index.md)", "start", f"[start]({SITE})"),
        ("![parts](docs/images/parts.svg)", "", f"![parts]({SITE}images/parts.svg)"),
        ("[columns](docs/images/columns.png)", "columns", f"[columns]({SITE}images/columns.png)"),
        ("[LICENSE](LICENSE)", "LICENSE", "LICENSE"),
        ("[why](docs/decisions/README.md)", "why", "why"),
        ("[uv](https://example.org/uv)", "[uv](https://example.org/uv)", "[uv](https://example.org/uv)"),
        ("[above](#guarantees)", "[above](#guarantees)", "[above](#guarantees)"),
    ],
)
def test_links_of_the_long_description_lead_to_the_site_or_are_text(
    described: Callable[[str, str], str], text: str, without: str, on_the_site: str
) -> None:
    assert described(f"See {text}.", "") == f"See {without}."
    assert described(f"See {text}.", SITE) == f"See {on_the_site}."


def test_a_dependency_of_several_extras_has_one_lower_bound() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    bounds: dict[str, set[str]] = {}
    for line in {line for lines in extras.values() for line in lines if ">=" in line}:
        name, _, bound = line.partition(">=")
        bounds.setdefault(name, set()).add(bound)
    assert {name: found for name, found in bounds.items() if len(found) > 1} == {}


def test_each_package_of_an_extra_is_in_the_lock_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for lines in project["optional-dependencies"].values() for line in lines)]
    named = {re.match(r"[\w.-]+", line).group().lower() for line in lines} - {"pyhudi"}  # type: ignore[union-attr]
    locked = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    assert named - locked == set(), "run `make lock-file`"


def test_an_extra_for_users_is_in_the_extra_for_developers() -> None:
    """So that `make install` and the lock file have its packages."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    [own] = [line for line in extras["dev"] if line.startswith("pyhudi[")]
    assert set(own.removeprefix("pyhudi[").removesuffix("]").split(",")) == extras.keys() - {"dev"}
