"""JSON in the files of a table: nested without end, of another shape, with numbers and letters that nothing has. A value or a typed error."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from support.fuzzing import MEGABYTE, measured_memory

import pyhudi_core as hudi
from pyhudi_core.catalog.columns import from_pieces
from pyhudi_core.conflicts.precedence import Claim
from pyhudi_core.consuming import CONSUMER_KEY, Checkpoint
from pyhudi_core.errors import CorruptTimelineError, HudiError, UnsafePathError
from pyhudi_core.formats.history_manifest import decode_version
from pyhudi_core.iceberg import table_metadata
from pyhudi_core.importing import bootstrap
from pyhudi_core.metadata_table.index_definitions import changed_definitions, read_definitions, with_versions
from pyhudi_core.model import internal_schema
from pyhudi_core.model.bounded_json import parse_json
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.file_names import parse_data_file
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.model.schema_avro import from_avro
from pyhudi_core.model.shared_commits import BATCHES_KEY, answers_in
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.orchestration import checkpoints, gaps
from pyhudi_core.orchestration.instant_times import parsed
from pyhudi_core.savepoints.hold_files import Hold
from pyhudi_core.services.restore.restore_work import RestoreWork
from pyhudi_core.services.versions import lowering_eight
from pyhudi_core.spark.batches import query_in
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.timeline.layout_one.layout import LayoutOne
from pyhudi_core.transaction import group, heartbeat, layout, markers, plan_executors
from pyhudi_core.transaction.record import Record

PACKAGE = Path(__file__).resolve().parents[2] / "pyhudi_core"
ODD = [
    "", "x", "[" * 100_000, '{"a":' * 100_000, "null", "7", '"x"', "[]", "[1]", "{}", "1e999", "9" * 10_000, '{"files": 1}', '{"files": "x"}',
    '{"time": 1, "files": []}', '{"files": [1]}', '{"files": ["../x"]}', '{"source": "s", "files": 1}', '{"source": "s", "files": {"a": 1e999}}',
    '{"undone": [{"time": 1, "action": "commit", "files": ["x"]}], "cleans": [], "metadata_partitions": []}',
    '{"undone": [], "cleans": [7], "metadata_partitions": []}', '{"undone": [], "cleans": "x", "metadata_partitions": []}',
    '{"a": 1}', '{"a": {"partitions": 1}}', '{"a": {"partitions": {"x": 1}}}', '{"indexDefinitions": 1}', '{"indexDefinitions": {"a": 1}}',
    '{"indexDefinitions": {"a": {"indexName": "x", "sourceFields": 7}}}',
]  # fmt: skip


def _commit(key: str, text: str) -> CommitMetadata:
    return CommitMetadata(None, extra={key: text})


CLAIM = '{"process": "x", "since_ms": %s, "until_ms": %s, "file_groups": [], "inserted": [], "replaced": null}'
ODD += [CLAIM % times for times in (("1e999", "1"), ("1", "1e999"), ("9" * 40, "1"), ("1" + "0" * 17, "1"))]
READERS: dict[str, Callable[[str, LocalStorage], object]] = {
    "checkpoint of a consumer": lambda text, _: Checkpoint.of(_commit(f"{CONSUMER_KEY}c", text), "c"),
    "query of a stream": lambda text, _: query_in(_commit("key", text), "key"),
    "columns in a catalog": lambda text, _: from_pieces("a", {"a.numParts": "1", "a.part.0": text}),
    "gaps": lambda text, _: gaps.gaps_in({f"{gaps.PREFIX}a": text}),
    "positions": lambda text, _: checkpoints._merged([_commit(f"{checkpoints.PREFIX}a", text)]),
    "loaded files": lambda text, _: bootstrap._files_of(_commit(bootstrap.BOOTSTRAP_KEY, text), "s"),
    "definitions": lambda text, storage: _put(storage, text) and read_definitions(storage, "x"),
    "changed definitions": lambda text, _: changed_definitions(text.encode()),
    "claim": lambda text, _: Claim.decode("x", text.encode()),
    "list of a restore": lambda text, _: RestoreWork.of_json(text.encode(), "x"),
    "list of a lowering": lambda text, storage: _put(storage, text) and lowering_eight.left_over(storage),
}


def _put(storage: LocalStorage, text: str) -> bool:
    for path in ("x", lowering_eight.LIST):
        storage.put(path, text.encode())
    return True


@pytest.mark.parametrize("reader", READERS)
def test_odd_json_is_a_value_or_a_typed_error(reader: str, tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path), fsync=False)
    for text in ODD:
        try:
            READERS[reader](text, storage)
        except (CorruptTimelineError, UnsafePathError) as error:
            assert error.hint, text[:40]


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", '{"indexDefinitions": {"a": 1}}'])
def test_definitions_that_an_upgrade_cannot_read_are_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="no indexDefinitions|nested too deeply|no object"):
        with_versions(text.encode())


@pytest.mark.parametrize("time", ["²", "\u0663", "20260101000000000²"])
def test_digits_of_other_scripts_are_no_time(time: str) -> None:
    assert parse_data_file(f"00000000-0000-0000-0000-000000000001-0_0-0-0_{time}.parquet") is None


PLACE = "x"
LARGE: dict[str, Callable[[bytes, TableContext], object]] = {
    "hold": lambda data, _: Hold.of_json(data, PLACE),
    "list of a restore": lambda data, _: RestoreWork.of_json(data, PLACE),
    "list of a lowering": lambda data, there: _placed(there, lowering_eight.LIST, data, lowering_eight.left_over),
    "heartbeat": lambda data, there: _placed(there, PLACE, data, lambda _: heartbeat.is_left(there, PLACE)),
    "executor": lambda data, there: _placed(
        there, f"{layout.executions(PLACE)}/1", data, lambda _: plan_executors.newest_executor(there, PLACE)
    ),
    "decision": lambda data, there: _placed(there, f"{layout.GROUPS}/{PLACE}", data, lambda _: group.resolved(there)),
    "commit record": lambda data, _: Record.decode(data, PLACE, "1"),
    "columns": lambda data, _: internal_schema.parse_versions(data.decode(), PLACE),
    "answers to batches": lambda data, _: answers_in(_commit(BATCHES_KEY, data.decode())),
    "positions": lambda data, _: checkpoints._merged([_commit(f"{checkpoints.PREFIX}a", data.decode())]),
    "checkpoint of a consumer": lambda data, _: Checkpoint.of(_commit(f"{CONSUMER_KEY}c", data.decode()), "c"),
    "loaded files": lambda data, _: bootstrap._files_of(_commit(bootstrap.BOOTSTRAP_KEY, data.decode()), "s"),
    "schema": lambda data, _: from_avro(data.decode()),
    "commit of version 6": lambda data, _: LayoutOne().decode(
        data, Instant("20260101000000000", Action.COMMIT, State.COMPLETED), PLACE
    ),
    "Iceberg metadata": lambda data, there: _placed(there, table_metadata.version_path(1), data, table_metadata.load),
    "markers": lambda data, there: _placed(
        there,
        f"{layout.markers(PLACE)}/MARKERS0",
        data.replace(b"[],", b"ab\n"),
        lambda root: markers.announced(root, PLACE),
    ),
}


def _placed(there: TableContext, path: str, data: bytes, read: Callable[[LocalStorage], object]) -> object:
    there.root.put(path, data)
    return read(there.root)  # type: ignore[arg-type]


@pytest.mark.parametrize("reader", LARGE)
def test_json_of_many_empty_lists_takes_memory_in_proportion_to_its_bytes(reader: str, tmp_path: Path) -> None:
    """Python takes twenty times as much for them as their text has bytes."""
    table = hudi.create_table(str(tmp_path / "t"), pa.schema([("id", pa.int64())]), "id")
    there, data = table._opened.context(), b"[" + b"[]," * (5 * MEGABYTE) + b"1]"
    with measured_memory() as memory:
        try:
            LARGE[reader](data, there)
        except HudiError as error:
            assert error.hint
    assert memory.grown < 120 * MEGABYTE


@pytest.mark.parametrize("text", ["[" * 9_999, '{"a": [[1,2],[3,4]]}' * 999, '\\"[' * 9_999, "\\\\[" * 9_999 + "\\"])
def test_brackets_in_a_text_are_no_lists(text: str) -> None:
    content = {"extraMetadata": {"mine": text}, "a": [1, {"b": text}]}
    for data in (json.dumps(content), json.dumps(content).encode(), json.dumps(content, indent=1)):
        assert parse_json(data) == content
    with pytest.raises(ValueError, match="lists and objects"):
        parse_json(json.dumps({"mine": text, "more": [[]] * 20_000}))


def test_json_of_a_file_is_parsed_within_bounds() -> None:
    """`json.loads` of what a storage returns: `parse_json` has the bounds. The definitions of indexes look at the size first."""
    direct = re.compile(r"json\.loads\([\w.]*(?:storage|root)\.get\(")
    found = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if direct.search(path.read_text())}
    assert found == {"metadata_table/index_definitions.py", "orchestration/remote_gate.py"}


UNGUARDED = {
    "engine/spark_executors.py", "engine/task_errors.py", "runtime/orc_child.py", "lock/servers/zookeeper.py", "spark/settings.py",
    "orchestration/remote_gate.py", "orchestration/timeline_cursor.py", "read/looks.py", "formats/log/changes.py",
    "formats/avro/records.py", "metadata_table/merging.py", "metadata_table/compacting.py",
    "iceberg/hudi_commits.py", "iceberg/manifests.py", "iceberg/table_metadata.py", "batches/handed_in.py",
    "iceberg/catalogs.py", "write/tasks.py",
}  # fmt: skip
"""Modules whose JSON is this project's own (what its processes tell each other, cursors, options), or was looked at before, or whose callers look."""


def test_who_parses_json_is_ready_for_one_that_is_nested_without_end() -> None:
    """Python raises `RecursionError` for it, which is no `ValueError`."""
    found = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith(("testing/", "cli/")) or name in UNGUARDED:
            continue
        found |= {f"{name}:{line}" for line in _unguarded(ast.parse(path.read_text(encoding="utf-8")), guarded=False)}
    assert not found


def _unguarded(node: ast.AST, *, guarded: bool) -> set[int]:
    if isinstance(node, ast.Try):
        ready = guarded or any(
            re.search("RecursionError|UNREADABLE", ast.unparse(each.type)) for each in node.handlers if each.type
        )
        inside = {line for child in node.body for line in _unguarded(child, guarded=ready)}
        others = [*node.handlers, *node.orelse, *node.finalbody]
        return inside | {line for child in others for line in _unguarded(child, guarded=guarded)}
    is_call = isinstance(node, ast.Call) and ast.unparse(node.func) == "json.loads" and not guarded
    found = {node.lineno} if is_call and isinstance(node, ast.Call) else set()
    return found.union(*(_unguarded(child, guarded=guarded) for child in ast.iter_child_nodes(node)))


def test_no_module_takes_for_a_number_what_int_refuses() -> None:
    """`str.isdigit` is true for letters such as a raised 2, which `int` refuses with a ValueError of Python's."""
    lines = [
        f"{path.name}: {line.strip()}"
        for top in (PACKAGE, PACKAGE.with_name("pyhudi_dagster"), PACKAGE.with_name("pyhudi_airflow"))
        for path in top.rglob("*.py")
        for line in path.read_text().splitlines()
        if ".isdigit()" in line and "isascii" not in line
    ]
    bytes_or_no_number = ("column_names.py: lead", "history_manifest.py: return", "table_metadata.py: return")
    assert [line for line in lines if not line.startswith(bytes_or_no_number)] == []


RAISED = "²"


@pytest.mark.parametrize(
    "read",
    [
        lambda: parsed(f"2026010100000{RAISED}"),
        lambda: parsed("20261399000000000"),
        lambda: parsed("\u0662" * 14),
        lambda: decode_version(RAISED.encode()),
    ],
)
def test_digits_that_are_no_number_and_no_time_are_none(read: Callable[[], object]) -> None:
    assert read() is None
