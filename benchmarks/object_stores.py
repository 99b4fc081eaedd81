"""Small operations in an object store: their part of the page. `scripts/object_store_figures.py` measures them."""

from __future__ import annotations

from typing import Any

Result = dict[str, Any]
WHAT = {
    "create": "create a table, with the first two rows",
    "upsert": "change one row by its key",
    "insert": "add one row",
    "scan": "open the table, and read it",
}


def section(kept: dict[str, Result]) -> str:
    """The section of the page; empty without a result."""
    if "object_stores" not in kept:
        return ""
    result = kept["object_stores"]
    columns = [f"ms at {ms} ms a call" for ms in result["latencies_ms"]]
    lines = [
        "## Small operations in an object store",
        "",
        "| operation | library | requests | rounds | " + " | ".join(columns) + " |",
        "|---|---|---|---|" + "---|" * len(columns),
    ]
    for operation, by_name in result["operations"].items():
        for name, each in by_name.items():
            times = " | ".join(f"{ms:.0f}" for ms in each["ms"])
            lines.append(f"| {WHAT[operation]} | {name} | {each['requests']} | {each['rounds']} | {times} |")
    return "\n".join([*lines, ""])
