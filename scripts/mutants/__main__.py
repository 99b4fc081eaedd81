"""``python -m scripts.mutants``: see the package. What was done stays in .cache/mutants, so a run that was stopped goes on where it was.

python -m scripts.mutants                          collect, run, keep the figures in docs/reliability/mutants.json
python -m scripts.mutants --minutes 30 --jobs 1    as far as that goes
python -m scripts.mutants --report                 only keep the figures of what was run
python -m scripts.mutants --show KEY               what a mutant changes, and the tests that run its line
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from benchmarks.machine import occasion
from scripts.mutants.candidates import PLACES, Candidate, candidates, mutated, sample
from scripts.mutants.covering import Covering, collect, load, parts
from scripts.mutants.equivalents import EQUIVALENT
from scripts.mutants.running import NOTICED, UNREACHED, Workshop

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
        return _show(next(each for each in everything if each.key.startswith(options.show)))
    if not options.report:
        covering = load(ROOT, HOME / "covering") if options.no_collecting else _covering(end)
        _run(chosen, covering, end, options)
    figures = _figures(len(everything), chosen, options.seed)
    KEPT.write_text(json.dumps({**figures, "taken": occasion()}, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(
        f"{figures['caught']} of {figures['run']} caught; {len(figures['survivors'])} to look at; kept in {KEPT.relative_to(ROOT)}"
    )
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
        help="seconds of tests for a mutant, as they took under coverage (default 60)",
    )
    parser.add_argument("--again", action="store_true", help="run again what was not caught")
    parser.add_argument("--no-collecting", action="store_true", help="go by the tests' lines that are known already")
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--show", metavar="KEY", help="show one mutant and the tests that run its line")
    return parser.parse_args()


def _show(candidate: Candidate) -> int:
    code = (ROOT / candidate.module).read_text(encoding="utf-8")
    print(candidate)
    print("\n".join(difflib.unified_diff(code.splitlines(), mutated(code, candidate).splitlines(), lineterm="", n=2)))
    covering = load(ROOT, HOME / "covering")
    for name in covering.of(candidate):
        print(f"{covering.seconds[name]:8.2f} s {name}")
    return 0


def _covering(end: float) -> Covering:
    """Which tests run which line; collected again if the code or the tests are others than last time."""
    folder = HOME / "covering"
    said = folder / "digest"
    now = _digest([*PLACES, "tests"])
    if not said.exists() or said.read_text() != now:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        said.write_text(now)
    for part, arguments in parts(ROOT).items():
        if time.monotonic() > end:
            sys.exit("no time was left to run mutants: the next run goes on here")
        if not collect(ROOT, folder, part, arguments):
            print(f"the tests of {part} could not be collected; they are left out", flush=True)
    return load(ROOT, folder)


def _digest(places: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for place in places:
        for path in sorted((ROOT / place).rglob("*.py")):
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _run(chosen: list[Candidate], covering: Covering, end: float, options: argparse.Namespace) -> None:
    known = _results()
    todo = [each for each in chosen if _is_open(known.get(each.key), len(covering.of(each)), options)]
    print(f"{len(chosen) - len(todo)} of {len(chosen)} mutants are done; {len(todo)} to go", flush=True)
    shops: SimpleQueue[Workshop] = SimpleQueue()
    for number in range(options.jobs):
        shops.put(Workshop.make(ROOT, HOME / f"tree-{number}", covering, options.budget))

    def one(candidate: Candidate) -> None:
        if time.monotonic() > end:
            return
        shop = shops.get()
        try:
            result = shop.run(candidate)
        finally:
            shops.put(shop)
        with (HOME / "results.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(result.as_json() | {"commit": occasion()["commit"]}) + "\n")
        print(
            f"{time.strftime('%H:%M:%S')} {result.outcome} {candidate} [{result.by or result.known}] {result.seconds} s",
            flush=True,
        )

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(one, todo))
    while not shops.empty():
        shops.get().close()


def _is_open(result: dict[str, Any] | None, tests: int, options: argparse.Namespace) -> bool:
    """Not run yet; or it was not caught, and now other or more tests can be run."""
    if result is None or result["outcome"] in NOTICED:
        return result is None
    more = result["ran"] < result["known"] and result["budget"] < options.budget
    return bool(options.again or more or result["known"] != tests)


def _results() -> dict[str, dict[str, Any]]:
    """The latest result of each mutant."""
    path = HOME / "results.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {one["key"]: one for one in map(json.loads, lines)}


def _figures(total: int, chosen: list[Candidate], seed: int) -> dict[str, Any]:
    known = _results()
    found = [known[each.key] for each in chosen if each.key in known]
    left = [one for one in found if one["outcome"] not in NOTICED]
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
        "unreached": sum(one["outcome"] == UNREACHED for one in found),
        "equivalent": sum(one["key"] in EQUIVALENT for one in left),
        "places": {place: dict(sorted(counts.items())) for place, counts in places.items()},
        "survivors": [
            {name: one[name] for name in ("key", "module", "line", "operator", "text", "outcome")}
            | {"cut": one["ran"] < one["known"], "why": EQUIVALENT.get(one["key"], "")}
            for one in sorted(left, key=lambda one: (one["module"], one["line"], one["key"]))
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
