"""`pyhudi help` shows the pages that messages name, and every one of them is in the wheel."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest
from click.testing import CliRunner, Result

import pyhudi as hudi
from pyhudi_core.cli import help as pages
from pyhudi_core.cli import main
from pyhudi_core.model.help_pages import Page

ROOT = Path(__file__).resolve().parents[3]
MODULES = [
    path
    for package in ("pyhudi", "pyhudi_airflow", "pyhudi_core", "pyhudi_dagster")
    for path in (ROOT / package).rglob("*.py")
]
ONLY_IN_A_CHECKOUT = re.compile(r"docs/|\w\.md\b|\bdecision \d{4}|README|CONTRIBUTING|CHANGELOG")
PAGE = """# Locks

Writers wait for a
[lock](locks.md#setting-it-up), see [the plan](decisions/0003.md).

![A picture](images/lock.svg)

| option | values | meaning |
|---|---|---|
| `lock`<br>`provider` | `a\\|b` | A sentence that is long enough to be wrapped, because the line has only eighty columns. |
| `wait` | | Time. |

| code | meaning |
|---|---|
| 0 | done |

- An item that is long enough to be wrapped, because the line has only eighty columns, too.
1. Another one,
   on two lines.

```python
call("a line of code stays as it is, whatever its length, so that it can be copied by the reader")

call()
```
    pip install pyhudi
"""
TEXT = """# Locks

Writers wait for a lock (pyhudi help locks), see the plan.


option:
  `lock`, `provider`
    values: `a|b`
    meaning: A sentence that is long enough to be wrapped, because the line has
    only eighty columns.
  `wait`
    meaning: Time.

code: meaning:
  0
    done

- An item that is long enough to be wrapped, because the line has only eighty
  columns, too.
1. Another one, on two lines.

    call("a line of code stays as it is, whatever its length, so that it can be copied by the reader")

    call()
    pip install pyhudi
"""


def shown(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["help", *arguments])


def messages(source: str) -> list[str]:
    """The texts of a module that are no docstrings."""
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    ]


def test_a_page_becomes_text_of_eighty_columns() -> None:
    assert pages.as_text(PAGE) == TEXT.strip()


@pytest.mark.parametrize("page", pages.PAGES)
def test_every_page_is_shown_with_all_its_words(page: str) -> None:
    said = shown(page)
    assert said.exit_code == 0
    markdown = (ROOT / "docs" / f"{page}.md").read_text()
    names = set(re.findall(r"`([^`|]+)`", re.sub(r"^```.*?^```", "", markdown, flags=re.MULTILINE | re.DOTALL)))
    together = " ".join(said.output.split())
    assert [name for name in names if " ".join(name.split()) not in together] == []
    assert [line for line in said.output.splitlines() if len(line) > 80 and not line.startswith("    ")] == []


def test_without_a_topic_the_topics_are_listed_and_an_unknown_one_names_them() -> None:
    assert [line.split()[0] for line in shown().output.splitlines()[1:-2]] == list(pages.PAGES)
    unknown = shown("lock")
    assert unknown.exit_code == 2
    assert "'lock' is not one of 'airflow', 'clusters', 'concepts', " in unknown.output


def test_the_wheel_has_every_page_that_a_message_can_name() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included == {f"docs/{page}.md": f"pyhudi_core/pages/{page}.md" for page in get_args(Page)}


def test_an_installed_package_reads_the_pages_of_its_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "locks.md").write_text("# Locks of the wheel\n")
    monkeypatch.setattr("pyhudi_core.cli.help.__file__", str(tmp_path / "cli" / "help.py"))
    assert shown("locks").output == "# Locks of the wheel\n"


def test_every_page_that_the_code_names_is_one_that_the_command_shows() -> None:
    named = {page for path in MODULES for page in re.findall(r"pyhudi help (\w+)|\bsee\(\W(\w+)\W\)", path.read_text())}
    assert {by_command or by_call for by_command, by_call in named} - {"TOPIC"} <= set(pages.PAGES)
    assert ("", "locks") in named
    assert ("options", "") in named


def test_no_message_names_a_file_that_only_a_checkout_has() -> None:
    found = {
        path.name: text for path in MODULES for text in messages(path.read_text()) if ONLY_IN_A_CHECKOUT.search(text)
    }
    assert found == {}


@pytest.mark.parametrize(
    "text", ["docs/locks.md lists them", "see locks.md", "by one commit (decision 0003)", "the README"]
)
def test_such_a_message_is_found_and_a_docstring_is_not(text: str) -> None:
    (said,) = [one for one in messages(f'"""{text}"""\nhint = "{text}"') if ONLY_IN_A_CHECKOUT.search(one)]
    assert said == text


def test_a_hint_names_the_command_that_shows_its_page() -> None:
    with pytest.raises(hudi.errors.UnknownOptionError, match=r"See: pyhudi help options\.$"):
        hudi.create_table("memory://help", options={"zzz": "1"}, record_key="id", schema=None)
