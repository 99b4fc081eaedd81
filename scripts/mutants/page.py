"""The part of docs/reliability.md about mutants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from scripts.mutants.keeping import GOAL, score


def render(result: Mapping[str, Any], taken: str, table: Callable[[list[str], list[list[str]]], list[str]]) -> str:
    """The figures, the score by package, and every mutant that was not caught."""
    run, caught, equivalent = result["run"], result["caught"], result["equivalent"]
    missing = result["sample"] - run
    since = [one for one in result["survivors"] if one.get("since")]
    how_many = f"- {result['mutants']:,} mutants in all; a sample of {result['sample']:,} with seed {result['seed']}; {run:,} of them run"
    lines = [
        "## Mutants",
        "A mutant is a small change to the code, made by cosmic-ray. It is caught if a quick test that reaches it fails, or never ends. A test that",
        "fails without the change as well does not count. `make mutants` draws a sample with a seed, so the same code has the same sample. A result",
        "holds as long as its module stays the same. A mutant that was not caught runs again when it has new tests. A mutant is equivalent if the",
        "program does the same with it.",
        taken,
        "",
        how_many + (f", **{missing:,} not run yet**" if missing else ""),
        f"- {caught:,} caught, {result['stuck']:,} of them because the tests never ended; {equivalent:,} equivalent",
        f"- {run - caught - equivalent:,} not caught, {result['unreached']:,} of them in places that no quick test reaches",
        *(
            []
            if result.get("all_tests", True)
            else ["- **the time ended before all tests were run on those that the nearest tests do not catch**"]
        ),
        *([f"- run at {_commits(result['commits'])}"] if len(result["commits"]) > 1 else []),
        f"- score: {caught / max(run - equivalent, 1):.1%} of the mutants that are not equivalent; the goal is {GOAL:.0%}",
        *_caught_since(since, score(result)),
        "",
    ]
    body = [
        [place, str(counts.get("run", 0)), str(counts.get("caught", 0))] for place, counts in result["places"].items()
    ]
    lines += [*table(["code", "run", "caught"], body), ""]
    if result["survivors"]:
        rows = [
            [f"{one['module']}:{one['line']}", f"`{_cell(one['text'])}`", f"`{_cell(one['now'])}`", _became(one)]
            for one in result["survivors"]
        ]
        lines += ["Not caught:", "", *table(["line", "code", "changed to", ""], rows), ""]
    return "\n".join(lines)


def _caught_since(survivors: list[Mapping[str, Any]], share: float) -> list[str]:
    """The mutants that were tried again by hand after the run: somebody made the change, and a test failed."""
    days = "; ".join(sorted({f"{one['since']['date']}, commit {one['since']['commit']}" for one in survivors}))
    line = f"- {len(survivors):,} of these caught since, each change made again by hand ({days}): with them {share:.1%} of the same sample"
    return [line] if survivors else []


def _commits(counts: Mapping[str, int]) -> str:
    return ", ".join(f"commit {commit}: {count:,}" for commit, count in counts.items())


def _cell(text: str) -> str:
    return (text if len(text) <= 100 else text[:97] + "...").replace("|", "\\|").replace("`", "'")


def _became(one: Mapping[str, Any]) -> str:
    if one["why"]:
        return f"equivalent: {one['why']}"
    if one.get("since"):
        return f"caught since by `{one['since']['by']}`"
    if one["outcome"] == "unreached":
        return "no quick test reaches it"
    return "**survives**" + (" (not all of its tests were run)" if one["cut"] else "")
