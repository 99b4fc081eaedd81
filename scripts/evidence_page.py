"""Make docs/evidence.md and its pictures from the records in docs/evidence (`scripts/evidence.py` calls it).

Nothing checks the page: it says how old each figure is on the day when it is made, and a checkout with other code or without history stays green.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import report  # noqa: E402
from scripts.evidence_parts import PARTS  # noqa: E402

DOCS, TESTS = ROOT / "docs", ROOT / "tests"
CODE = ("pyhudi_core", "pyhudi_dagster")
OLD_COMMITS, OLD_DAYS = 50, 30
Record = Mapping[str, Any]
_PROMISE = re.compile(r"\bP(\d+)(?: to P(\d+))?\b")
BENCHMARKS = "## Benchmarks\n\n![COW upsert, load and delete beside the limit](images/benchmarks.svg)\n"
OPENING = """# Evidence

Made by `make evidence` from the records in `docs/evidence/`; do not edit. The text next to each figure names the part that measured it. The
table of parts has the day of the run, its commit, and its age on {today}: days, and commits to `pyhudi_core` and `pyhudi_dagster` since then. A
part that is **old** has more than {commits} commits or {days} days. [Reliability](reliability.md) and
[benchmarks](benchmarks.md) say what the figures mean.
"""


def records(folder: Path) -> dict[str, dict[str, Any]]:
    """The record of each part that has run."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def write(found: Mapping[str, Record], docs: Path = DOCS) -> None:
    """Write the page and its picture."""
    (docs / "evidence.md").write_text(page(found), encoding="utf-8")
    if benchmarks := results(found):
        (docs / "images" / "benchmarks.svg").write_text(report.picture(benchmarks), encoding="utf-8")


def page(found: Mapping[str, Record], today: dt.date | None = None) -> str:
    """The complete page."""
    today = today or dt.datetime.now(dt.UTC).date()
    opening = OPENING.format(today=today, commits=OLD_COMMITS, days=OLD_DAYS)
    named = {
        name + (f" (**old**: {age(one, today)})" if is_old(one, today) else ""): one for name, one in found.items()
    }
    figures = [_explored(named), small_commits(named), _mutants(named), _idle(named), _hour(named)]
    figures += [BENCHMARKS, report.page(results(named))]
    return "\n".join(part for part in [opening, _promises(), *figures, _capabilities(), _parts(found, today)] if part)


def table(head: Iterable[str], body: Iterable[Iterable[object]]) -> str:
    """A Markdown table."""
    names = list(head)
    lines = ["|".join(names), "|".join("---" for _ in names), *("|".join(_cell(cell) for cell in row) for row in body)]
    return "".join(f"|{line}|\n" for line in lines)


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


# --- promises and capabilities: read from the tests


def promises() -> dict[int, str]:
    """The first sentence of each promise of docs/reliability.md."""
    text = (DOCS / "reliability.md").read_text(encoding="utf-8")
    found = re.findall(r"^- \*\*P(\d+)\*\* ([^.:;]*)", text, re.MULTILINE)
    return {int(number): " ".join(said.split()) for number, said in found}


def promised_by(tests: Path = TESTS) -> dict[int, list[str]]:
    """The files of tests that name each promise in a docstring."""
    found: dict[int, list[str]] = defaultdict(list)
    for path in sorted(tests.rglob("test_*.py")):
        docstrings = " ".join(re.findall(r'"""(.*?)"""', path.read_text(encoding="utf-8"), re.DOTALL))
        spans = [range(int(one[1]), int(one[2] or one[1]) + 1) for one in _PROMISE.finditer(docstrings)]
        for promise in sorted({number for span in spans for number in span}):
            found[promise].append(path.relative_to(tests).as_posix())
    return found


def _promises() -> str:
    tests, body = promised_by(), []
    for number, text in promises().items():
        links = (f"[{Path(file).stem.removeprefix('test_')}](../tests/{file})" for file in tests.get(number, ()))
        body.append([f"P{number}", text, " ".join(links)])
    return "## The ten promises\n\n" + table(["", "promise", "tests that name it"], body)


def capabilities() -> dict[str, dict[str, str]]:
    """The capabilities of each section of tests/capabilities.txt: id and text."""
    found: dict[str, dict[str, str]] = {}
    for line in (TESTS / "capabilities.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            section = found.setdefault(line[2:], {})
        elif line:
            name, _, text = line.partition(" ")
            section[name] = text
    return found


def proofs() -> dict[str, int]:
    """How often a mark `row` of a test names each capability."""
    found: dict[str, int] = defaultdict(int)
    for path in TESTS.rglob("*.py"):
        for names in re.findall(r"mark\.row\(([^)]*)\)", path.read_text(encoding="utf-8")):
            for name in re.findall(r'"(\w+)"', names):
                found[name] += 1
    return dict(found)


def _capabilities() -> str:
    counts = proofs()
    text = "[tests/capabilities.txt](../tests/capabilities.txt) says what each id means; `grep -rn 'row(.*\"K9\"' tests` finds its tests.\n\n"
    body = [
        [f"{next(iter(rows))}-{list(rows)[-1]}", title, len(rows), sum(counts.get(name, 0) for name in rows)]
        for title, rows in capabilities().items()
    ]
    return "## Capabilities\n\n" + text + table(["ids", "", "capabilities", "tests"], body)


# --- parts and their ages


@cache
def commits_since(commit: str) -> int | None:
    """The commits to the code since a commit; None without history, or if the commit is not in it."""
    command = ["git", "rev-list", "--count", f"{commit.split()[0]}..HEAD", "--", *CODE]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return None if done.returncode else int(done.stdout)


def _days(record: Record, today: dt.date) -> int:
    return (today - dt.date.fromisoformat(record["day"])).days


def age(record: Record, today: dt.date) -> str:
    """Days, and commits if they are known."""
    commits = commits_since(record["commit"])
    return f"{_days(record, today)} d" + ("" if commits is None else f", {commits} c")


def is_old(record: Record, today: dt.date) -> bool:
    """Whether a figure of the record is called old."""
    return _days(record, today) > OLD_DAYS or (commits_since(record["commit"]) or 0) > OLD_COMMITS


def _parts(found: Mapping[str, Record], today: dt.date) -> str:
    body = []
    for name in PARTS:
        if name not in found:
            body.append([name, "never run", "", "", "", ""])
            continue
        one = found[name]
        said = re.sub(r", \d+ (deselected|warnings?)|in [\d.]+s.*", "", one["closing"]).strip().replace("|", "\\|")
        outcome = said if one["outcome"] == "passed" else f"**failed** {said}"
        since = f"**{age(one, today)}**" if is_old(one, today) else age(one, today)
        body.append([name, one["day"], one["commit"], since, one["minutes"], outcome])
    text = "`scripts/evidence_parts.py` says what each part runs, its record on which machine.\n\n"
    return "## Parts\n\n" + text + table(["part", "day", "commit", "age", "minutes", "result"], body)


# --- figures


def _entries(found: Mapping[str, Record], kind: str) -> Iterator[tuple[str, str, Any]]:
    """The entries of a kind of figures, with their part; of a part that failed there are none, for its tests check its figures."""
    for part, one in found.items():
        if one["outcome"] == "passed":
            for name, entry in one["figures"].get(kind, {}).items():
                yield part, name, entry


def results(found: Mapping[str, Record]) -> dict[str, dict[str, Any]]:
    """The results of benchmarks, each with its part."""
    return {name: {**entry, "run": part} for part, name, entry in _entries(found, "benchmarks")}


def _sums(found: Mapping[str, Record], kind: str, columns: Iterable[str]) -> tuple[list[int], str]:
    entries = [(part, entry) for part, _, entry in _entries(found, kind)]
    parts = ", ".join(dict.fromkeys(part for part, _ in entries))
    return [sum(entry.get(column, 0) for _, entry in entries) for column in columns], parts


def _explored(found: Mapping[str, Record]) -> str:
    crashes = [
        [name.replace("_", " "), entry["operations"], entry["crash_points"], entry["crashes_of_the_recovery"], part]
        for part, name, entry in _entries(found, "crash_points")
    ]
    sums, parts = _sums(found, "crashed", ("operations", "crash_points", "second_crashes"))
    crashes.append(["services, other operations", *sums, parts])
    lines = [
        "## What was explored\n\n",
        table(["crashed", "operations", "crash points", "crashes of the recovery", "parts"], crashes),
    ]
    rows = []
    for kind, words in (("explored", "writers, services and readers"), ("interleavings", "named cases of a few")):
        sums, parts = _sums(found, kind, ("explorations", "schedules", "states", "violations_found"))
        rows.append([words, sums[0] or sum(1 for _ in _entries(found, kind)), *sums[1:], parts])
    eleven = [(part, entry) for part, _, entry in _entries(found, "eleven_rows")]
    wrong = [entry for _, entry in eleven if (entry["expected"] == "OK") != (entry["failure"] == "none")]
    violated = sum(entry["failure"] != "none" for _, entry in eleven)
    sums, parts = _sums(found, "eleven_rows", ("schedules", "states"))
    rows.append(["the model's eleven configurations", len(eleven), *sums, violated, parts])
    lines += ["\n", table(["orders of", "explorations", "schedules", "states", "violations", "parts"], rows)]
    lines.append(
        "\nAll violations are expected: a test switches a protection off, and fails if it finds no violation. Of the eleven configurations "
        f"{len(wrong)} gave another result than the model.\n"
    )
    total, parts = _sums(found, "sequences", ("sequences",))
    lines.append(f"\nRandom sequences without a violation: {total[0]:,} ({parts or 'never run'}).\n")
    writers = [[name.replace("_", ", "), one["acknowledged"], one["rows"], one["retries"], f"{one['acknowledged'] / one['seconds']:.1f}", part]
               for part, name, one in _entries(found, "processes")]  # fmt: skip
    if writers:
        lines.append(
            "\n" + table(["processes x commits", "acknowledged", "found", "retries", "commits/s", "part"], writers)
        )
    soak = {name: value for _, name, value in _entries(found, "soak")}
    if soak:
        lines.append(
            f"\nKilled every {soak['every_s']:g} s for {soak['seconds']} s ({', '.join(part for part in found if part.startswith('soak'))}): "
            f"{soak['kills']} kills, {soak['acknowledged']} acknowledged commits, none lost.\n"
        )
    return "".join(lines)


def _times(spread: Mapping[str, float]) -> str:
    return f"{spread['median']:.1f}, {spread['p95']:.1f}, {spread['max']:.1f}"


HOLD_BY = {"history": ("archived", "archived commits"), "instants": ("instants", "instants"), "files": ("files",) * 2}


def small_commits(found: Mapping[str, Record]) -> str:
    kept = {name: entry for _, name, entry in _entries(found, "commits")}
    calls = {name.replace("_", " "): entry["calls"] for _, name, entry in _entries(found, "lock_calls")}
    part = ", ".join(dict.fromkeys(part for part, _, _ in _entries(found, "commits")))
    lines = [f"## Small commits\n\nPart: {part}. Times: median, 95th percentile, longest.\n\n"] if kept else []
    if "rates" in kept:
        lines.append(table(["partitions", "writers", "commits/s", "retries per commit", "lock wait, ms", "lock held, ms"], (
            [{"disjoint": "apart"}.get(one["place"], "same"), one["writers"], f"{one['commits_per_second']:.1f} ({one['low']:.1f}-{one['high']:.1f})",
             f"{one['retries_per_commit']:.2f}", _times(one["lock_wait_ms"]), _times(one["lock_held_ms"])] for one in kept["rates"]["rates"]
        )) + "\n")  # fmt: skip
    if "lock_hold" in kept:
        rows = [[f"{row[size]:,} {words}", *(_times(row[what]) for what in ("lock_held_ms", "lock_processor_ms", "commit_ms"))]
                for key, (size, words) in HOLD_BY.items() for row in kept["lock_hold"][f"by_{key}"]]  # fmt: skip
        lines += [table(["a commit of one row", "lock held, ms", "its processor time", "complete commit"], rows), "\n"]  # fmt: skip
    if "conflicts" in kept:
        rows = [
            [row["file_groups"], row["writers"], f"{row['lost_attempts']:.0%}", f"{row['commits_per_second']:.1f}"]
            for row in kept["conflicts"]["conflicts"]
        ]
        lines.append("\nUpdates of random rows; a lost attempt is planned again.\n\n")
        lines.append(table(["file groups", "writers", "lost", "commits/s"], rows))
    if calls:
        said = ", ".join(f"{name} {count}" for name, count in calls.items())
        lines.append(f"\nStorage calls under the lock: {said}.\n")
    return "".join(lines)


def _mutants(found: Mapping[str, Record]) -> str:
    runs = [(part, each["figures"]["mutants"]) for part, each in found.items() if "mutants" in each["figures"]]
    if not runs:
        return ""
    part, one = runs[0]
    kinds = ("run", "caught", "equivalent", "survived")
    sums = {kind: sum(counts.get(kind, 0) for counts in one["rooms"].values()) for kind in kinds}
    share = sums["caught"] / max(sums["caught"] + sums["survived"], 1)
    body = [[room, *(counts.get(kind, 0) for kind in kinds)] for room, counts in one["rooms"].items()]
    survivors = [each for each in one["survivors"] if not each["why"]]
    left = [f"- {each['place']}: `{each['line']}` became `{each['becomes']}`\n" for each in survivors]
    text = (
        f"Part: {part}. {one['mutants']:,} possible changes, a sample of {one['sample']} with seed {one['seed']}, {sums['run']} run. Caught: "
        f"{share:.1%} of the mutants that change the behaviour (the others are in `scripts/equivalent_mutants.jsonl`). Not caught in that run:\n\n"
    )
    known = {*one["rooms"], *one.get("apart", {})}
    others = sorted(path.parent.name for path in (ROOT / "pyhudi_core").glob("*/__init__.py"))
    undrawn = [name for name in others if f"pyhudi_core/{name}" not in known]
    end = f"\nNo recorded run has drawn mutants of {', '.join(undrawn)}.\n" if undrawn else ""
    parts = ["## Mutants\n\n", table(["package", *kinds], body), "\n", text, *left, _mutants_apart(one, kinds), end]
    return "".join(parts)


def _mutants_apart(one: Mapping[str, Any], kinds: Sequence[str]) -> str:
    """The packages that were drawn and run alone (`scripts/mutants.py --only`), each with the commit whose tests decided."""
    apart = one.get("apart", {})
    body = [
        [room, *(counts[kind] for kind in kinds), f"{counts['day']}, {counts['commit']}"]
        for room, counts in apart.items()
    ]
    left = [
        f"- {each['place']}: `{each['line']}` became `{each['becomes']}`\n"
        for counts in apart.values()
        for each in counts["survivors"]
    ]
    text = "\nEach of these packages was run alone, with its own tests. The mutants below were not caught:\n\n"
    return text + table(["package", *kinds, "when"], body) + "\n" + "".join(left) if body else ""


def _idle(found: Mapping[str, Record]) -> str:
    rows = [[name, one["cpu_percent"], one["pss_mb"]] for _, name, one in _entries(found, "idle_cost")]
    part = ", ".join(dict.fromkeys(part for part, _, _ in _entries(found, "idle_cost")))
    head = f"## Dagster at rest\n\nPart: {part}.\n\n"
    return head + table(["`dagster dev` with", "% of a core", "MB"], rows) if rows else ""


def _hour(found: Mapping[str, Record]) -> str:
    entries = list(_entries(found, "dagster_hour"))
    rows = [[name.replace("_", " "), one] for _, name, one in entries]
    part = ", ".join(dict.fromkeys(part for part, _, _ in entries))
    head = f"## Dagster with sixty tables, two lakes and three code locations\n\nPart: {part}.\n\n"
    return head + table(["", ""], rows) if rows else ""
