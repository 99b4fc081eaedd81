"""Keys of the COMPLEX generator over one column: releases of Hudi write `value` or `column:value`, and a table keeps the form that it has."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.disk import contents
from support.prefixed_keys import complex_table
from support.tables import orders, reopen, rows

from pyhudi_core.errors import InvalidRecordKeyError, UnsupportedTableError
from pyhudi_core.index.bucket import Hashing
from pyhudi_core.write import key_form

DELETED = pa.table({"id": [2], "day": ["a"]})


@pytest.mark.row("J7")
@pytest.mark.parametrize(("prefixed", "keys"), [(True, ["id:1", "id:3"]), (False, ["1", "3"])])
def test_a_table_keeps_the_form_of_its_keys(
    location: str, monkeypatch: pytest.MonkeyPatch, keys: list[str], *, prefixed: bool
) -> None:
    table = complex_table(location, monkeypatch, prefixed=prefixed)
    table.upsert(orders((1, "a", 9.0), (3, "a", 3.0)))
    table.delete(DELETED)
    assert rows(table, "id", "price") == [(1, 9.0), (3, 3.0)]
    assert sorted(table.scan().to_arrow()["_hoodie_record_key"].to_pylist()) == keys
    assert rows(table.lookup(pa.table({"id": [1], "day": ["a"]})), "price") == [(9.0,)]


def test_a_table_with_keys_of_both_forms_is_not_written(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = complex_table(location, monkeypatch, prefixed=False)
    with monkeypatch.context() as patched:
        patched.setattr(key_form, "has_prefixed_keys", lambda context, snapshot: True)
        table.upsert(orders((7, "a", 7.0)))
    before = contents(location)
    with pytest.raises(UnsupportedTableError, match="two forms"):
        reopen(table).upsert(orders((1, "a", 9.0)))
    assert contents(location) == before


@pytest.mark.row("J7")
def test_a_table_with_logs_alone_gets_no_second_row_of_a_key_in_another_form(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hudi writes the first rows of a bucket into a log. Keys with a colon are not put into buckets here."""
    options = {
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": 1,
        "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    }
    with monkeypatch.context() as patched:
        patched.setattr(Hashing, "values", lambda self, keys: [pc.utf8_slice_codeunits(keys, len("id:"))])
        table = complex_table(location, monkeypatch, prefixed=True, table_type="mor", ordering="ts", options=options)
    assert all(piece.base is None for piece in table.scan().slices())
    with pytest.raises(InvalidRecordKeyError, match="colon"):
        table.upsert(orders((1, "a", 9.0)))
    assert rows(table, "id", "price") == [(1, 1.0), (2, 2.0)]
