"""How many rows file slices have: exactly or not at all, and an estimate that is not too small where an index is sized by it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from support.homes import context_of
from support.tables import create_plain, orders, rows

import pyhudi_core as hudi
from pyhudi_core.file_groups import row_counts
from pyhudi_core.file_groups.row_counts import most_rows_of_slices, rows_of_slices
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.formats.log.reader import LogReader

GROUPS = {"hoodie.metadata.record.index.min.filegroup.count": 1}


@pytest.fixture
def table(request: pytest.FixtureRequest) -> hudi.HudiTable:
    """100 rows in base files of two partitions, of which 20 are in logs, too."""
    made = create_plain(
        f"memory://{request.node.name}/t",
        orders().schema,
        "id",
        "day",
        table_type="mor",
        options=GROUPS | {"hoodie.metadata.enable": "false"},
    )
    made.upsert(orders(*((n, "ab"[n % 2], 1.0, 1) for n in range(100))))
    made.upsert(orders(*((n, "ab"[n % 2], 2.0, 2) for n in range(20))))
    return made


def most(table: hudi.HudiTable) -> int:
    view = table.snapshot().view
    return most_rows_of_slices(context_of(table), view.visibility, view.all_slices())


def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """No commit says how many rows a file has."""
    monkeypatch.setattr("pyhudi_core.file_groups.visibility.Visibility.stat", lambda self, time, path: None)
    monkeypatch.setattr("pyhudi_core.timeline.history.ArchivedTimeline.contents", lambda self, times: {})


def test_slices_with_logs_have_at_most_the_rows_that_commits_name(
    table: hudi.HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rows_of_slices(context_of(table), table.snapshot().view.all_slices()) is None
    opened: list[str] = []
    monkeypatch.setattr(BaseFileReader, "__init__", lambda self, source, path, *rest: opened.append(path))
    monkeypatch.setattr(LogReader, "__init__", lambda self, source, path, *rest: opened.append(path))
    monkeypatch.setattr(row_counts, "read_footer", lambda source, path: opened.append(path))
    assert most(table) == 120
    assert opened == []


def test_an_estimate_without_logs_is_exact(table: hudi.HudiTable) -> None:
    assert table.compaction.run()
    assert rows_of_slices(context_of(table), table.snapshot().view.all_slices()) == most(table) == 100


@pytest.mark.parametrize("footers", [1, 0])
def test_rows_that_no_commit_names_are_estimated_from_sizes_with_few_footers(
    table: hudi.HudiTable, monkeypatch: pytest.MonkeyPatch, footers: int
) -> None:
    slices = list(table.snapshot().view.all_slices())
    size = sum(piece.size for piece in slices)
    with monkeypatch.context() as patch:
        forgotten(patch)
        patch.setattr(row_counts, "FOOTERS", footers)
        read: list[str] = []
        real = row_counts.read_footer
        patch.setattr(row_counts, "read_footer", lambda source, path: read.append(path) or real(source, path))
        view = table.snapshot().view
        found = most_rows_of_slices(context_of(table), view.visibility, slices)
        assert len(read) == footers
    if footers:
        [base] = [piece.base for piece in slices if piece.base is not None and piece.base.path in read]
        assert found == pytest.approx(50 + 50 * (size - base.size) / base.size, abs=1)
        assert found >= 100
    else:
        assert found == -(-size // 1024), "the size of a row by the option hoodie.copyonwrite.record.size.estimate"


def test_a_record_index_of_a_table_with_logs_gets_file_groups_for_its_rows(
    table: hudi.HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if an entry had so many bytes that two of them, and room for as many, were 1 GB.
    monkeypatch.setattr("pyhudi_core.write.first_metadata.metadata_build._ENTRY_BYTES", (1 << 30) // 40)
    assert table.metadata_table.create(["record_index"]).partitions["record_index"] == 6
    assert rows(hudi.open_table(table.location).lookup(pa.table({"id": [7]})), "id", "price") == [(7, 2.0)]
