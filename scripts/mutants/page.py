"""The part of docs/reliability.md about mutants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

GOAL = 0.95


def render(result: Mapping[str, Any], taken: str, table: Callable[[list[str], list[list[str]]], list[str]]) -> str:
    """The figures, the score by place, and every mutant that was not caught."""
    run, caught, equivalent = result["run"], result["caught"], result["equivalent"]
    score = caught / (run - equivalent) if run > equivalent else 0.0
    missing = result["sample"] - run
    how_many = f"- {result['mutants']:,} mutants in all; a sample of {result['sample']:,} with seed {result['seed']}; {run:,} of them run"
    lines = [
        "## Mutants",
        "Small changes to the code (cosmic-ray makes them), and whether a quick test that runs the line fails. `make mutants` draws a sample by a",
        "seed, so the same code has the same sample. A mutant whose tests run without end counts as caught. Equivalent: no test can tell.",
        taken,
        "",
        how_many + (f", **{missing:,} not run yet**" if missing else ""),
        f"- {caught:,} caught, {result['stuck']:,} of them because the tests ran without end; {equivalent:,} equivalent",
        f"- {run - caught - equivalent:,} not caught, {result['unreached']:,} of them on lines that no quick test runs",
        f"- score: {score:.1%} of those that are not equivalent; the goal is {GOAL:.0%}",
        "",
    ]
    body = [
        [place, str(counts.get("run", 0)), str(counts.get("caught", 0))] for place, counts in result["places"].items()
    ]
    lines += [*table(["code", "run", "caught"], body), ""]
    if result["survivors"]:
        rows = [
            [f"{one['module']}:{one['line']}", one["operator"], f"`{_cell(one['text'])}`", _became(one)]
            for one in result["survivors"]
        ]
        lines += ["Not caught:", "", *table(["line", "change", "code", ""], rows), ""]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return (text if len(text) <= 100 else text[:97] + "...").replace("|", "\\|").replace("`", "'")


def _became(one: Mapping[str, Any]) -> str:
    if one["why"]:
        return f"equivalent: {one['why']}"
    if one["outcome"] == "unreached":
        return "no quick test runs the line"
    return "**survives**" + (" (its longest tests were not run)" if one["cut"] else "")
