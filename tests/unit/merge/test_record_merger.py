"""Mergers of users are checked with generated rows before they are used, and then make the rows of tables that name them."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.golden import unpack

import pyhudi_core as hudi
from pyhudi_core.errors import ConfigError, MergerContractError, UnsupportedTableError
from pyhudi_core.merge import LAWS, RecordMerger, register_merger, registered_mergers, unregister_merger
from pyhudi_core.merge.merger_contract import RowGenerator
from pyhudi_core.merge.payloads import PAYLOADS, choose
from pyhudi_core.model.properties import MergeMode

NAME = "6f1d9c4e-93a5-4c1e-9b0e-3f1a1f6f2c11"
SCHEMA = pa.schema(
    [("id", pa.string()), ("ts", pa.int32()), ("a", pa.string()), ("b", pa.int64()), ("tags", pa.list_(pa.string()))]
)


@dataclass(frozen=True)
class Made:
    """A merger out of a function."""

    function: Callable[[pa.Table, pa.Table], pa.Table]

    def merge(self, older: pa.Table, newer: pa.Table) -> pa.Table:
        return self.function(older, newer)


def with_column(table: pa.Table, name: str, values: pa.ChunkedArray) -> pa.Table:
    return table.set_column(
        table.schema.get_field_index(name), table.schema.field(name), values.cast(table.schema.field(name).type)
    )


def sort_key(row: dict[str, object]) -> str:
    values = (row["ts"], row["a"], row["b"], row["tags"])
    return repr([(value is not None, f"{value:9}" if isinstance(value, int) else value) for value in values])


def greatest(older: pa.Table, newer: pa.Table) -> pa.Table:
    """One whole version by a total order of all values: lawful in every way."""
    pairs = zip(older.to_pylist(), newer.to_pylist(), strict=True)
    return choose(older, newer, np.array([sort_key(new) >= sort_key(old) for old, new in pairs], bool))


def largest_b(older: pa.Table, newer: pa.Table) -> pa.Table:
    """The newer version with the larger ``b`` of both: only the order of arrival decides about the rest."""
    return with_column(newer, "b", pc.max_element_wise(older.column("b"), newer.column("b")))


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    unregister_merger(NAME)


def register(function: Callable[[pa.Table, pa.Table], pa.Table], **more: object):
    return register_merger(NAME, Made(function), schema=SCHEMA, record_key=["id"], **more)


@pytest.mark.row("J3")
@pytest.mark.row("M4")
def test_a_lawful_merger_is_registered_with_what_was_checked() -> None:
    evidence = register(greatest, triples=300, seed=7)
    assert (evidence.triples, evidence.seed, evidence.laws, evidence.waived) == (300, 7, tuple(LAWS), ())
    assert registered_mergers() == (NAME,)
    unregister_merger(NAME)
    assert registered_mergers() == ()


class Forgetful:
    """Gives another result every second time."""

    def __init__(self) -> None:
        self.calls = 0

    def merge(self, older: pa.Table, newer: pa.Table) -> pa.Table:
        self.calls += 1
        return newer if self.calls % 2 else older


def shorter(older: pa.Table, newer: pa.Table) -> pa.Table:
    return newer.slice(1)


def retyped(older: pa.Table, newer: pa.Table) -> pa.Table:
    return newer.set_column(3, "b", newer.column("b").cast(pa.int32()))


def other_keys(older: pa.Table, newer: pa.Table) -> pa.Table:
    return with_column(newer, "id", pc.fill_null(pc.utf8_upper(newer.column("id")), "x"))


def of_the_batch(older: pa.Table, newer: pa.Table) -> pa.Table:
    top = pc.max(newer.column("b")).as_py()
    return with_column(newer, "b", pa.chunked_array([pa.array([top] * len(newer), pa.int64())]))


def sums(older: pa.Table, newer: pa.Table) -> pa.Table:
    return with_column(newer, "b", pc.add(pc.fill_null(older.column("b"), 0), pc.fill_null(newer.column("b"), 0)))


def means(older: pa.Table, newer: pa.Table) -> pa.Table:
    halves = pc.divide(pc.add(pc.fill_null(older.column("b"), 0), pc.fill_null(newer.column("b"), 0)), 2)
    kept = pc.if_else(
        pc.equal(pc.fill_null(older.column("b"), -1), pc.fill_null(newer.column("b"), -1)), newer.column("b"), halves
    )
    return with_column(newer, "b", kept)


def failing(older: pa.Table, newer: pa.Table) -> pa.Table:
    raise KeyError("no such thing")


def payload(name: str) -> Callable[[pa.Table, pa.Table], pa.Table]:
    merger = PAYLOADS[f"org.apache.hudi.common.model.{name}"](("ts",))
    return lambda older, newer: merger.merge(older, newer).rows


@pytest.mark.row("J3", "U5")
@pytest.mark.parametrize(
    ("law", "merger"),
    [
        ("shape", Made(shorter)), ("shape", Made(retyped)), ("keys", Made(other_keys)), ("deterministic", Forgetful()),
        ("row_by_row", Made(of_the_batch)), ("idempotent", Made(sums)), ("associative", Made(means)),
        ("associative", Made(payload("PartialUpdateAvroPayload"))), ("commutative", Made(largest_b)),
    ],
)  # fmt: skip
def test_a_merger_that_breaks_a_law_is_refused_with_a_counterexample(law: str, merger: RecordMerger) -> None:
    with pytest.raises(MergerContractError, match=f"law '{law}'") as caught:
        register_merger(NAME, merger, schema=SCHEMA, record_key=["id"], ordering=["ts"])
    assert NAME in str(caught.value)
    assert "waive" in (caught.value.hint or "")
    assert registered_mergers() == ()
    if law != "shape":
        assert re.search(r"a = \{'id': .*; .* = \{", str(caught.value)), "the rows and both results are told"


def test_the_counterexample_is_one_with_few_values() -> None:
    with pytest.raises(MergerContractError) as caught:
        register(largest_b, ordering=["ts"])
    assert str(caught.value).count("None") >= 6


def test_the_same_seed_finds_the_same_counterexample() -> None:
    def told(seed: int) -> str:
        with pytest.raises(MergerContractError) as caught:
            register(means, ordering=["ts"], seed=seed)
        return str(caught.value)

    assert told(3) == told(3)


def test_a_law_can_be_waived_by_name() -> None:
    evidence = register(largest_b, ordering=["ts"], waive=["commutative"])
    assert evidence.waived == ("commutative",)
    with pytest.raises(ConfigError, match="no laws"):
        register(greatest, waive=["sorted"])


def test_versions_with_equal_ordering_values_may_depend_on_the_order_of_arrival() -> None:
    evidence = register(payload("EventTimeAvroPayload"), ordering=["ts"])
    assert (evidence.laws, evidence.waived) == (tuple(LAWS), ())


def test_a_merger_that_fails_says_so() -> None:
    with pytest.raises(MergerContractError, match="KeyError"):
        register(failing)


@pytest.mark.parametrize("name", [*PAYLOADS, *(mode.strategy_id for mode in MergeMode)])
def test_the_names_of_hudi_are_its_own(name: str) -> None:
    with pytest.raises(ConfigError, match="own name"):
        register_merger(name, Made(greatest), schema=SCHEMA, record_key=["id"])


def test_key_and_ordering_columns_must_be_there() -> None:
    with pytest.raises(ConfigError, match="at"):
        register(greatest, ordering=["at"])


def test_rows_are_generated_for_every_type_that_tables_have() -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False), ("i", pa.int32()), ("f", pa.float32()), ("d", pa.float64()), ("t", pa.bool_()),
            ("p", pa.decimal128(10, 2)), ("s", pa.string()), ("b", pa.binary()), ("x", pa.binary(4)), ("day", pa.date32()),
            ("at", pa.timestamp("us", "UTC")), ("local", pa.timestamp("us")), ("time", pa.time64("us")),
            ("l", pa.list_(pa.int64())), ("m", pa.map_(pa.string(), pa.int64())), ("r", pa.struct([("x", pa.int32()), ("y", pa.string())])),
        ]
    )  # fmt: skip
    first, second = RowGenerator(1).versions(schema, ["id"], ["at"], 2, 200)
    assert first.schema == second.schema == schema
    assert first.column("id") == second.column("id")
    assert 0 < first.column("m").null_count < 200
    assert len(set(map(str, first.column("at").to_pylist()))) == 4, "ordering values are few"
    again = RowGenerator(1).versions(schema, ["id"], ["at"], 2, 200)[1]
    assert repr(again.to_pylist()) == repr(second.to_pylist()), "NaN among them"
    with pytest.raises(ConfigError, match="duration"):
        RowGenerator(1).versions(pa.schema([("d", pa.duration("s"))]), [], [], 1, 20)


def custom_table(folder: Path, **properties: str) -> str:
    """A golden table with logs, with other properties of merging."""
    location = unpack("hudi-1.0.2/mor_payload_partial_update", folder / "t")
    for name in ("hoodie.properties", "hoodie.properties.backup"):
        path = Path(location, ".hoodie", name)
        if path.exists():
            lines = path.read_text().splitlines()
            kept = [line for line in lines if line.partition("=")[0] not in properties]
            path.write_text("\n".join([*kept, *(f"{key}={value}" for key, value in properties.items())]) + "\n")
    return location


def by_id(table: hudi.HudiTable) -> dict[str, dict[str, object]]:
    return {row["id"]: row for row in table.scan().to_arrow().to_pylist()}


@pytest.mark.row("J3")
@pytest.mark.row("M4")
def test_a_table_that_names_a_registered_merger_is_merged_by_it(tmp_path: Path) -> None:
    register(largest_b, ordering=["ts"], waive=["commutative"])
    rows = by_id(hudi.open_table(custom_table(tmp_path, **{"hoodie.record.merge.strategy.id": NAME})))
    # The base has b = n for kn; the logs say 100 and none of k0, 1 and none of k6, none and 7 of k7, 70 and none of k8.
    found = {key: (rows[key]["b"], rows[key]["ts"], rows[key]["a"]) for key in ("k0", "k6", "k7", "k8", "k9")}
    assert found == {
        "k0": (100, 12, "again"), "k6": (6, 8, None), "k7": (7, 11, "late"), "k8": (70, 20, "newest"), "k9": (9, 10, "base9"),
    }  # fmt: skip
    assert "k3" not in rows, "deletes do not reach the merger"
    assert rows["k0"]["_hoodie_commit_time"] > rows["k9"]["_hoodie_commit_time"]  # type: ignore[operator]


def test_an_unknown_merger_is_refused_by_its_name(tmp_path: Path) -> None:
    table = hudi.open_table(custom_table(tmp_path, **{"hoodie.record.merge.strategy.id": NAME}))
    with pytest.raises(UnsupportedTableError, match=NAME) as caught:
        table.scan().to_arrow()
    assert "register_merger" in (caught.value.hint or "")
    assert table.scan(mode="read_optimized").to_arrow().num_rows == 13


@pytest.mark.row("J4")
def test_an_unknown_payload_class_is_refused_by_its_name_and_can_be_registered(tmp_path: Path) -> None:
    name = "org.example.MyPayload"
    table = hudi.open_table(custom_table(tmp_path, **{"hoodie.compaction.payload.class": name}))
    with pytest.raises(UnsupportedTableError, match=r"org\.example\.MyPayload \(hoodie\.compaction\.payload\.class\)"):
        table.scan().to_arrow()
    register_merger(name, Made(greatest), schema=SCHEMA, record_key=["id"])
    try:
        assert by_id(table)["k8"]["ts"] == 20
    finally:
        unregister_merger(name)


def test_a_merger_that_fails_on_rows_of_the_table_is_named(tmp_path: Path) -> None:
    def picky(older: pa.Table, newer: pa.Table) -> pa.Table:
        if "again" in newer.column("a").to_pylist():
            raise ValueError("no such word")
        return choose(
            older, newer, pc.fill_null(pc.greater_equal(newer.column("ts"), older.column("ts")), True).to_numpy()
        )

    def cut(older: pa.Table, newer: pa.Table) -> pa.Table:
        return newer if "again" not in newer.column("a").to_pylist() else newer.slice(0, 0)

    def wider(older: pa.Table, newer: pa.Table) -> pa.Table:
        return newer.set_column(0, "id", newer.column("id").cast(pa.large_string()))

    location = custom_table(tmp_path, **{"hoodie.record.merge.strategy.id": NAME})
    everything = [law for law in LAWS if law != "shape"]
    for merger, message in ((picky, "ValueError: no such word"), (cut, "gave 0 rows"), (wider, "id large_string")):
        register(merger, waive=[*everything, "shape"])
        with pytest.raises(MergerContractError, match=message):
            hudi.open_table(location).scan().to_arrow()


def test_the_merger_goes_with_the_scan_to_other_processes(tmp_path: Path) -> None:
    register_merger(NAME, Greatest(), schema=SCHEMA, record_key=["id"])
    scan = hudi.open_table(custom_table(tmp_path, **{"hoodie.record.merge.strategy.id": NAME})).scan()
    merging = scan.merging
    unregister_merger(NAME)
    again = pickle.loads(pickle.dumps(merging))
    assert again.merger == merging.merger
    assert again.law() == merging.law()


@dataclass(frozen=True)
class Greatest:
    """A merger that pickles."""

    def merge(self, older: pa.Table, newer: pa.Table) -> pa.Table:
        return greatest(older, newer)


def test_the_examples_in_the_documentation_run(capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "merging.md"
    examples = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    names: dict[str, object] = {"__name__": "example"}
    try:
        for code in examples:
            exec(compile(code, str(page), "exec"), names)
    finally:
        unregister_merger(str(names.get("STRATEGY")))
    assert capsys.readouterr().out.strip() == str(tuple(LAWS))
