"""``python -m scripts.mutants``: see the package. The results stay in .cache/mutants, so a run that was stopped continues there.

python -m scripts.mutants                          collect, run, keep the figures in docs/reliability/mutants.json
python -m scripts.mutants --minutes 30 --jobs 1    as many mutants as fit into the time
python -m scripts.mutants --only lock/storage      a sample of these modules, with the tests of their packages; keeps no figures
python -m scripts.mutants --report                 only keep the figures of what was run
python -m scripts.mutants --show KEY               what a mutant changes, and the tests that reach one of the sample
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from benchmarks.machine import occasion
from scripts.mutants import keeping
from scripts.mutants.candidates import PLACES, Candidate, candidates, mutated, sample
from scripts.mutants.covering import STAGES, Covering, collect, files_beside, files_of_tests
from scripts.mutants.equivalents import equivalent
from scripts.mutants.running import NOTICED, UNREACHED, Workshop, digest

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".cache" / "mutants"
KEPT = ROOT / "docs" / "reliability" / "mutants.json"
SEED = 8


def main() -> int:
    """Runs what the command line asks for."""
    options = _arguments()
    end = time.monotonic() + 60 * options.minutes
    everything = list(candidates(ROOT))
    chosen = sample(everything, options.size, options.seed)
    if options.show:
        covering = collect(ROOT, HOME, chosen, files_of_tests(ROOT), -1)
        return _show([each for each in everything if each.key in options.show], covering)
    if options.only:
        return _only([each for each in everything if options.only in each.module], end, options)
    all_tests = _known_to_be_complete() if options.report else _in_stages(chosen, end, options)
    return _keep({**_figures(len(everything), chosen, options.seed), "all_tests": all_tests})


def _keep(figures: dict[str, Any]) -> int:
    """Store the figures, if they say no less than the kept ones."""
    if not figures["run"]:
        sys.exit("nothing has been run on this code")
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {"run": 0, "survivors": []}
    said = f"{figures['caught']} of {figures['run']} caught; {len(figures['survivors'])} to look at"
    if refused := keeping.refusal(figures, kept):
        print(f"{said}; not kept: {refused}")
        return 0
    figures = keeping.with_caught_since(figures, kept)
    KEPT.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{said}; kept in {KEPT.relative_to(ROOT)}")
    if missed := keeping.failure(figures):
        print(missed)
    return int(bool(missed))


def _only(found: list[Candidate], end: float, options: argparse.Namespace) -> int:
    """Run a sample of some modules with the tests of their packages; for somebody who works on them."""
    if not found:
        sys.exit(f"no module of {', '.join(PLACES)} has {options.only!r} in its path")
    chosen, home = sample(found, options.size, options.seed), HOME / "only"
    covering = collect(ROOT, home, chosen, files_beside(ROOT, {each.module for each in chosen}), end)
    if covering is not None:
        _run(chosen, covering, end, options, home)
    results = _results(chosen, home)
    left = [each for each in chosen if each.key in results and results[each.key]["outcome"] not in NOTICED]
    print(f"{len(results) - len(left)} of {len(results)} caught by the tests of their packages")
    for each in left:
        print(f"{results[each.key]['outcome']} {each} -> {_became(each)}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=115, help="stop after that many (default 115)")
    parser.add_argument("--size", type=int, default=400, help="mutants in the sample (default 400)")
    parser.add_argument("--seed", type=int, default=SEED, help=f"of the sample (default {SEED})")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (default 2)")
    parser.add_argument(
        "--budget",
        type=float,
        default=60,
        help="seconds of tests for a mutant, as they took without a change (default 60)",
    )
    parser.add_argument("--again", action="store_true", help="run all tests again for what was not caught")
    parser.add_argument("--only", default="", metavar="TEXT", help="a sample of modules with this in their path")
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--show", nargs="+", metavar="KEY", help="show mutants and the tests that reach them")
    return parser.parse_args()


def _show(found: list[Candidate], covering: Covering | None) -> int:
    for candidate in found:
        code = (ROOT / candidate.module).read_text(encoding="utf-8")
        print(candidate)
        print(_difference(code, candidate))
        for name in covering.of(candidate) if covering else ():
            print(f"{covering.seconds[name]:8.2f} s {name}")
    return 0


def _known_to_be_complete() -> bool:
    """Whether the last run had time for all tests, as the kept figures say."""
    return KEPT.exists() and bool(json.loads(KEPT.read_text(encoding="utf-8")).get("all_tests", True))


def _in_stages(chosen: list[Candidate], end: float, options: argparse.Namespace) -> bool:
    """Run the nearest tests on all mutants, then farther ones on those that were not caught; whether the time was enough for all."""
    for stage in STAGES:
        covering = collect(ROOT, HOME, chosen, files_of_tests(ROOT, stage), end)
        if covering is not None:
            _run(chosen, covering, end, options, HOME)
        if covering is None or time.monotonic() > end:
            print("no time was left: the next run goes on here")
            return False
    return True


def _run(chosen: list[Candidate], covering: Covering, end: float, options: argparse.Namespace, home: Path) -> None:
    known = _results(chosen, home)
    before = {key: [] if options.again else one["passed"] for key, one in known.items()}
    todo = [each for each in chosen if _is_open(known.get(each.key), before.get(each.key, []), covering, each)]
    print(f"{len(chosen) - len(todo)} of {len(chosen)} mutants are done; {len(todo)} to go", flush=True)
    shops: SimpleQueue[Workshop] = SimpleQueue()
    stamp = occasion(PLACES)
    for number in range(options.jobs if todo else 0):
        shops.put(Workshop.make(ROOT, home / f"tree-{number}", covering, options.budget))

    def one(candidate: Candidate) -> None:
        if time.monotonic() > end:
            return
        shop = shops.get()
        try:
            result = shop.run(candidate, before.get(candidate.key, ()))
        finally:
            shops.put(shop)
        taken = {**stamp, "load": round(os.getloadavg()[0], 1)}
        with (home / "results.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(result.as_json() | {"taken": taken}) + "\n")
        print(
            f"{time.strftime('%H:%M:%S')} {result.outcome} {candidate} [{result.by or result.known}] {result.seconds} s",
            flush=True,
        )

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(one, todo))
    while not shops.empty():
        shops.get().close()


def _is_open(result: dict[str, Any] | None, before: list[str], covering: Covering, candidate: Candidate) -> bool:
    """Not run yet; or it was not caught, and there are tests that have not been run on it."""
    if result is None or result["outcome"] in NOTICED:
        return result is None
    passed = set(before)
    return any(covering.token(name) not in passed for name in covering.of(candidate))


def _results(chosen: list[Candidate], home: Path = HOME) -> dict[str, dict[str, Any]]:
    """The latest result of each mutant, if its module is as it was then."""
    path = home / "results.jsonl"
    keys = {each.key for each in chosen}
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    code = {each.module: digest((ROOT / each.module).read_text(encoding="utf-8")) for each in chosen}
    return {
        one["key"]: one
        for one in map(json.loads, lines)
        if one["key"] in keys and code.get(one["module"]) == one["code"]
    }


def _figures(total: int, chosen: list[Candidate], seed: int) -> dict[str, Any]:
    known = _results(chosen)
    by_key = {each.key: each for each in chosen}
    found = [known[key] for key in by_key if key in known]
    left = [one for one in found if one["outcome"] not in NOTICED]
    survivors = [
        _survivor(by_key[one["key"]], one)
        for one in sorted(left, key=lambda one: (one["module"], one["line"], one["key"]))
    ]
    places: dict[str, Counter[str]] = {place: Counter() for place in PLACES}
    for one in found:
        place = next(place for place in PLACES if one["module"].startswith(place + "/"))
        places[place].update(["run", "caught" if one["outcome"] in NOTICED else "not caught"])
    return {
        "mutants": total,
        "sample": len(chosen),
        "seed": seed,
        "run": len(found),
        "caught": len(found) - len(left),
        "stuck": sum(one["outcome"] == "stuck" for one in found),
        "unreached": sum(one["outcome"] == UNREACHED and not one["why"] for one in survivors),
        "equivalent": sum(bool(one["why"]) for one in survivors),
        "places": {place: dict(sorted(counts.items())) for place, counts in places.items()},
        "survivors": survivors,
        "commits": dict(Counter(one["taken"]["commit"] for one in found)),
        "taken": max((one["taken"] for one in found), key=lambda taken: taken["date"], default={}),
    }


def _survivor(candidate: Candidate, result: dict[str, Any]) -> dict[str, Any]:
    now = _became(candidate)
    kept = {name: result[name] for name in ("key", "module", "line", "operator", "text", "outcome")}
    return {
        **kept,
        "commit": result["taken"]["commit"],
        "cut": result["ran"] < result["known"],
        "now": now,
        "why": equivalent(candidate.module, candidate.text, now),
    }


def _became(candidate: Candidate) -> str:
    """The line as the mutant has it."""
    lines = _difference((ROOT / candidate.module).read_text(encoding="utf-8"), candidate, 0).splitlines()
    return " ".join(line[1:].strip() for line in lines if line.startswith("+") and not line.startswith("+++"))


def _difference(code: str, candidate: Candidate, around: int = 2) -> str:
    changed = mutated(code, candidate).splitlines()
    return "\n".join(difflib.unified_diff(code.splitlines(), changed, lineterm="", n=around))


if __name__ == "__main__":
    sys.exit(main())
