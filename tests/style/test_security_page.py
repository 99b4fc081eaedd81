"""SECURITY.md promises nothing without a test: each sentence of its promising sections names one that exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from support.sources import ROOT

PROMISING = ("Files of a table", "Rows", "Secrets", "Connections")
_LINK = re.compile(r"\[`(\w+)`\]\(([^)]+)\)")


def _without_test(page: str) -> Iterator[str]:
    """What the promising sections say without a test of this name: bullets, and paragraphs that do not only introduce bullets."""
    sections = dict(part.partition("\n")[::2] for part in page.split("\n## ")[1:])
    for title in PROMISING:
        for block in re.split(r"\n(?=- )|\n\n", sections.get(title, "").strip()):
            text = " ".join(block.split())
            found = _LINK.findall(text)
            if not text.startswith("- "):
                if text and not text.endswith(":"):
                    yield f"{title}: {text[:60]}"
            elif not found or re.search(r"\. [A-Z]", _LINK.sub("", text)):
                yield f"{title}: a bullet is one sentence with its test: {text[:60]}"
            yield from (f"{title}: there is no {name} in {path}" for name, path in found if not _is_there(name, path))
        if title not in sections:
            yield f"there is no section {title}"


def _is_there(name: str, path: str) -> bool:
    file = ROOT / path
    if not (path.startswith("tests/") and file.is_file()):
        return False
    return any(
        isinstance(node, ast.FunctionDef) and node.name == name for node in ast.walk(ast.parse(file.read_text()))
    )


def test_each_sentence_of_the_page_that_promises_names_a_test_that_exists() -> None:
    assert list(_without_test((ROOT / "SECURITY.md").read_text())) == []


@pytest.mark.parametrize(
    ("bullet", "said"),
    [
        ("- It is safe.", "one sentence with its test"),
        ("- It is safe ([`test_no_such`](tests/style/test_security_page.py)).", "there is no test_no_such"),
        ("- It is safe ([`test_x`](tests/style/no_such.py)).", "there is no test_x"),
        ("- It is safe ([`names`](pyhudi/__init__.py)).", "there is no names"),
        ("It is safe.", "Rows: It is safe."),
        ("- One is safe. All are safe ([`test_a_promise_without_its_test_is_found`](tests/style/test_security_page.py)).", "one sentence"),
    ],
)  # fmt: skip
def test_a_promise_without_its_test_is_found(bullet: str, said: str) -> None:
    page = "# Security\n" + "".join(f"\n## {title}\nSo it is:\n" for title in PROMISING)
    found = list(
        _without_test(
            page.replace(
                "## Rows\nSo it is:\n",
                f"## Rows\nSo it is:\n{bullet}\n" if bullet[0] == "-" else f"## Rows\n{bullet}\n",
            )
        )
    )
    assert len(found) == 1
    assert said in found[0]
    assert list(_without_test(page)) == []
