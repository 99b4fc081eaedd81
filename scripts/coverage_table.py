"""Write docs/coverage.md: which test proves which row of the capability table.

``python scripts/coverage_table.py`` writes the page, ``--check`` only says whether it is current. Tests name their rows with
``@pytest.mark.row("A8")``; they are found by reading the source, so nothing is imported or run. A row that has no test is an error.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "coverage.md"

ROWS: dict[str, dict[str, str]] = {
    "Storage layout": {
        "A1": "Base path with the reserved folder `.hoodie`, which is never a partition",
        "A2": "Partition folders, hive style or bare values, inside one another",
        "A3": "Random prefixes: partitions at any depth, found by their metafile; written behind an option",
        "A4": "Tables without partitions",
        "A5": "Partition columns stay in the data files; tables without them are refused",
        "A6": "`.hoodie_partition_metadata` in every partition",
        "A7": "Partition values that make safe and reversible folder names, or an error",
        "A8": "`hoodie.properties` with checksum, and a backup during updates",
    },
    "Timeline": {
        "B1": "Active timeline in `.hoodie/timeline`",
        "B2": "Names of instants in every state and action",
        "B3": "A begin and a completion time on every action",
        "B4": "Monotonic times, whatever the clock does",
        "B5": "Timeline files are published with put-if-absent",
        "B6": "Avro metadata for each action",
        "B7": "Archived timeline: `_version_`, manifests, Parquet files by level",
        "B8": "Rows of the archived timeline, six columns, as Hudi's",
        "B9": "When and what is archived, and the compaction of levels",
        "B10": "Cheap refresh; reads pin a snapshot",
    },
    "Actions": {
        "C1": "commit",
        "C2": "deltacommit, as Hudi writes it",
        "C3": "replacecommit (insert_overwrite, insert_overwrite_table, delete_partitions)",
        "C5": "compaction, as Hudi writes it",
        "C6": "logcompaction, as Hudi writes it",
        "C7": "indexing, as Hudi writes it",
        "C8": "rollback",
        "C9": "savepoint, as Hudi writes it",
        "C10": "restore, as Hudi writes it",
        "C11": "clustering, as Hudi writes it",
    },
    "Tables and queries": {
        "D1": "Copy-on-write tables",
        "D2": "Merge-on-read tables are read, groups without base files included",
        "D3": "Snapshot query",
        "D4": "Time travel, by completion time; snapshot tokens",
        "D5": "Incremental query: the latest state of what changed",
        "D6": "Change data capture, in the three logging modes",
        "D7": "Read-optimized query, with what it leaves out",
        "D8": "Structured Streaming source",
        "D10": "Schema evolution: added and widened columns",
    },
    "Data files": {
        "E1": "Parquet base files with Hudi's names and footers",
        "E2": "ORC base files are read",
        "E3": "HFile base files are read",
        "E4": "File groups of mixed extensions are read",
        "E5": "Other base file formats are refused by name",
        "E6": "Names of log files",
        "E7": "A write token for each attempt, salted",
        "E9": "The five meta columns",
        "E10": "Tables without meta columns are read",
    },
    "Log files": {
        "F1": "The magic, also inside a record",
        "F2": "Block length, bounded before anything is allocated",
        "F3": "Log version",
        "F4": "Block kinds, as ordinals",
        "F5": "Headers; unknown ones are kept",
        "F6": "Content length",
        "F7": "Footers",
        "F8": "The total length at a block's end",
        "G0": "Command blocks",
        "G1": "Delete blocks",
        "G2": "Damaged blocks are passed over, counted and told",
        "G3": "Avro data blocks",
        "G4": "HFile data blocks",
        "G5": "Parquet data blocks",
        "G6": "Change blocks",
        "H0": "INSTANT_TIME",
        "H1": "TARGET_INSTANT_TIME",
        "H2": "SCHEMA",
        "H3": "COMMAND_BLOCK_TYPE",
        "H4": "COMPACTED_BLOCK_TIMES",
        "H5": "RECORD_POSITIONS",
        "H6": "BLOCK_IDENTIFIER: repeated blocks count once",
        "H7": "IS_PARTIAL",
        "H8": "BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS",
    },
    "Metadata table and indexes, read": {
        "I1": "Partition `files`",
        "I2": "Partition `column_stats`",
        "I3": "Partition `partition_stats`",
        "I4": "Partition `bloom_filters`",
        "I5": "Partition `record_index`",
        "I6": "Record index by partition (release 1.2)",
        "I7": "Secondary indexes",
        "I8": "Expression indexes, seven functions",
        "I9": "Index definitions",
        "L10": "File slices by completion time",
        "L11": "Listing by the metadata table, with the storage's listing to fall back on",
        "L13": "No listing twice for one snapshot",
        "P10": "`hoodie.table.metadata.partitions`",
        "P11": "`hoodie.table.index.defs.path`",
    },
    "Merging and keys": {
        "J1": "Commit-time ordering",
        "J2": "Event-time ordering, several columns, null lowest",
        "J3": "Custom merging: record mergers in Python, checked when they are registered",
        "J4": "Hudi's payload classes",
        "M4": "Record mergers as a Python protocol",
        "J5": "Partial updates, read",
        "J6": "`_hoodie_is_deleted`",
        "J7": "Key generators: simple, complex, custom, non-partitioned",
    },
    "Table properties": {
        "P1": "`hoodie.database.name`",
        "P2": "`hoodie.table.name`",
        "P3": "`hoodie.table.type`",
        "P4": "`hoodie.table.version`: 8 and no other, checked at every commit",
        "P5": "`hoodie.table.recordkey.fields`, one or several",
        "P6": "`hoodie.table.partition.fields`",
        "P7": "`hoodie.table.precombine.field` and `hoodie.table.ordering.fields`, one or several",
        "P8": "`hoodie.timeline.layout.version`",
        "P9": "`hoodie.table.checksum`",
        "P12": "`hoodie.record.merge.mode` and `.strategy.id`",
        "P13": "`hoodie.table.timeline.timezone`: UTC is written, LOCAL is read",
        "P14": "What record key, partition and ordering mean",
    },
    "Writers at the same time": {
        "K1": "A begin time above all that was read, and the state that was read is remembered",
        "K2": "Rows go to file groups as the index says at that state",
        "K3": "A lock around the end of every write, on by default; pessimistic writes hold it throughout",
        "K4": "What ran at the same time is judged by completion times",
        "K5": "The same file group: one of the two writes is planned anew",
        "K6": "Planned compactions and clusterings count",
        "K7": "The same key in two file groups: one of the two writes is planned anew, by default",
        "K8": "All files of a commit are published by one decision, the metadata table's first",
        "K9": "Plans are made under the lock",
        "K10": "Early detection through markers",
        "K11": "An aborted write's files are removed; lazy and eager policies with heartbeats",
        "K12": "Planned anew without being asked, with jitter and a budget",
        "K13": "A commit that is durable is never reported as failed",
        "L1": "Cleaning and archival conflict with no writer",
        "L7": "Snapshot isolation for readers; write levels stated",
        "L8": "Files of commits that did not complete are not read",
        "L9": "Replaced file groups are not read",
        "L12": "Incremental reads and streams never pass a commit that completes late",
    },
    "Locks": {
        "O1": "In-process lock",
        "O5": "File-system lock, the file of Hudi's own provider",
        "O6": "Storage-based lock on conditional writes, the file of Hudi's own provider",
        "O7": "Audit of lock holdings",
        "O8": "Conflict strategies",
        "O9": "An expired lock loses nothing; writers with another lock are refused",
        "O10": "Lost answers of the lock's own writes",
    },
    "The critique's stories": {
        "R1": "Two writers at one instant, in the timeline",
        "R2": "Leaked files of an instant stay invisible",
        "R3": "One instant, two actions",
        "R4": "Commits, metadata table and listing disagree: commits come first, and the doctor says so",
        "R5": "Locking is on by default",
        "R6": "Concurrent inserts never duplicate a key",
        "R7": "Commits out of order change no earlier state",
        "R8": "An incremental consumer misses no commit",
        "R9": "A crashed writer blocks nobody",
        "R10": "Time travel gives the same answer twice",
        "R13": "A pause between check and commit loses nothing",
        "R14": "What is checked under the lock is written down and tested",
    },
    "The article's mechanisms": {
        "T1": "The loop of optimistic concurrency control",
        "T2": "A compare-and-swap decides",
        "T3": "Unique paths; orphans are harmless and swept",
        "T4": "Two processes, a thousand commits each, nothing lost",
        "T5": "Jitter against live-lock",
        "T6": "A lost write is planned anew, not swapped again",
        "T7": "A long writer is not overtaken for ever",
        "T8": "A stale listing loses nothing",
        "T11": "Requirements of a commit",
        "T13": "Conflicts are by file group",
        "T15": "Retries are reported",
    },
    "Versions": {"Q1": "The gate on the table's version"},
}
"""The rows that are promised, with what they stand for; later work adds its own."""


def rows_tested() -> dict[str, list[str]]:
    """The tests of each row that a marker names, as ``tests/path.py::name``; sorted."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        name = path.relative_to(ROOT).as_posix()
        for test, rows in _marked(ast.parse(path.read_text(encoding="utf-8"))):
            for row in rows:
                found[row].append(f"{name}::{test}")
    return dict(found)


def _marked(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    shared = [
        row
        for node in tree.body
        if isinstance(node, ast.Assign) and _names(node, "pytestmark")
        for row in _rows(node.value)
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            rows = [*shared, *(row for decorator in node.decorator_list for row in _rows(decorator))]
            yield node.name, sorted(set(rows))


def _names(node: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)


def _rows(node: ast.AST) -> list[str]:
    """The ids in every ``pytest.mark.row(...)`` below a node."""
    return [
        argument.value
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "row"
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]


def untested(found: dict[str, list[str]] | None = None) -> list[str]:
    """Promised rows that no test names."""
    tests = rows_tested() if found is None else found
    return [row for rows in ROWS.values() for row in rows if not tests.get(row)]


def unknown(found: dict[str, list[str]] | None = None) -> list[str]:
    """Rows that tests name and that nobody promised: misspelt, or missing in ``ROWS``."""
    tests = rows_tested() if found is None else found
    return sorted(set(tests) - {row for rows in ROWS.values() for row in rows})


def render() -> str:
    """The page."""
    found = rows_tested()
    lines = [
        "# What is promised, and which tests prove it",
        "",
        "Made by `python scripts/coverage_table.py` from the markers `row` of the tests; do not edit. Every row has a test, or the script",
        "fails. Nothing here says that these tests were run: `make test` does that.",
    ]
    for section, rows in ROWS.items():
        lines += ["", f"## {section}", "", "| row | promise | tests |", "|---|---|---|"]
        lines += [f"| {row} | {promise} | {_links(found.get(row, []))} |" for row, promise in rows.items()]
    return "\n".join(lines) + "\n"


def _links(tests: list[str]) -> str:
    paths = dict.fromkeys(test.partition("::")[0] for test in tests)
    return "<br>".join(f"[{path.removeprefix('tests/')}](../{path})" for path in paths)


def main() -> None:
    """Write the page, or with ``--check`` end with an error if it is not current."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if the page is out of date")
    check = parser.parse_args().check
    if missing := untested():
        sys.exit(f"rows without a test: {', '.join(missing)}")
    if strange := unknown():
        sys.exit(f"tests name rows that are not in the list: {', '.join(strange)}")
    text = render()
    current = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
    if check and not current:
        sys.exit("docs/coverage.md is out of date; run python scripts/coverage_table.py")
    if not current:
        PAGE.write_text(text, encoding="utf-8")
        print("wrote", PAGE.relative_to(ROOT))


if __name__ == "__main__":
    main()
