"""Which figures are kept in docs/reliability/mutants.json: a run never replaces figures that say more than its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GOAL = 0.95

Figures = Mapping[str, Any]


def refusal(new: Figures, kept: Figures) -> str:
    """Why the kept figures stay, or nothing.

    A run says more if it ran more of its sample. At the same number, one with time for all tests says more than one without it.
    """
    if (new["run"], new.get("all_tests", True)) >= (kept["run"], kept.get("all_tests", True)):
        return ""
    tests = "" if new.get("all_tests", True) else ", without time for all tests"
    return (
        f"{new['run']:,} mutants were run{tests}; docs/reliability/mutants.json has {kept['run']:,} and stays as it is"
    )


def with_caught_since(new: Figures, kept: Figures) -> dict[str, Any]:
    """The figures, with what is known of survivors that were caught by hand after the kept run.

    A survivor that was run again with all its tests survived the new test, too, so it is no longer called caught.
    """
    before = {one["key"]: one for one in kept["survivors"] if one.get("since")}
    survivors = [
        {**one, "since": before[one["key"]]["since"]}
        if one["key"] in before and _as_before(one, before[one["key"]])
        else one
        for one in new["survivors"]
    ]
    return {**new, "survivors": survivors}


def _as_before(now: Figures, before: Figures) -> bool:
    return bool(now["cut"] or now["outcome"] == "unreached" or now.get("commit") == before.get("commit"))


def score(figures: Figures) -> float:
    """The share of the mutants that were caught, in the run or since, of those that are not equivalent."""
    since = sum(bool(one.get("since")) for one in figures["survivors"])
    return float((figures["caught"] + since) / max(figures["run"] - figures["equivalent"], 1))


def failure(figures: Figures) -> str:
    """What a complete run misses of the goal, or nothing."""
    complete = figures["run"] == figures["sample"] and figures.get("all_tests", True)
    if not complete or score(figures) >= GOAL:
        return ""
    what_now = "Write a test for each survivor in docs/reliability.md, or add it to scripts/mutants/equivalents.py"
    return f"{score(figures):.1%} are caught; the goal is {GOAL:.0%}. {what_now}"
