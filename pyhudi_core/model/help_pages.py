"""The documentation pages that messages refer to, and the text of the reference.

A page is ``docs/<page>.md`` in a checkout, and is in the wheel (``pyproject.toml``). The command ``pyhudi help <page>`` shows it.
"""

from __future__ import annotations

from typing import Literal

Page = Literal[
    "airflow",
    "clusters",
    "concepts",
    "conflicts",
    "consumers",
    "doctor",
    "locks",
    "merging",
    "night",
    "options",
    "reading",
    "services",
    "spark",
    "sql",
    "upkeep",
    "writing",
]


def see(page: Page) -> str:
    """Return the sentence that ends a hint: the command that shows the page."""
    return f"See: pyhudi help {page}"
