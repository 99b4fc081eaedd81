"""An index that the first write would refuse is refused when the table is created, and nothing is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from support.tables import ORDERS, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError

BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 2}
INDEXED = {"hoodie.index.type": "RECORD_INDEX", "hoodie.metadata.record.index.enable": True}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "buckets without a number": ({"hoodie.index.type": "BUCKET"}, r"hoodie\.bucket\.index\.num\.buckets"),
    "consistent hashing": (
        BUCKETS | {"hoodie.index.bucket.engine": "CONSISTENT_HASHING"},
        "merge-on-read tables only",
    ),
    "hash of another column": (BUCKETS | {"hoodie.bucket.index.hash.field": "price"}, "Give some of id"),
    "moved updates": (BUCKETS | {"pyhudi.update.moves.rows": True}, "one file group for ever"),
    "no record index": (
        {"hoodie.index.type": "RECORD_INDEX"},
        r"create_table with hoodie\.metadata\.record\.index\.enable=true",
    ),
    "no metadata table": (INDEXED | {"hoodie.metadata.enable": False}, r"not with hoodie\.metadata\.enable=false"),
    "no meta columns": (INDEXED | {"hoodie.populate.meta.fields": False}, "no record index"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_index_that_the_first_write_would_refuse_is_refused_before_the_table_is_made(
    tmp_path: Path, case: str
) -> None:
    options, words = REFUSED[case]
    with pytest.raises(InvalidOptionError, match=f"(?s){words}"):
        hudi.create_table(tmp_path / "orders", ORDERS, "id", "day", options=options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("cow", BUCKETS),
        ("mor", BUCKETS | {"hoodie.index.bucket.engine": "CONSISTENT_HASHING"}),
        ("cow", INDEXED),
        ("cow", {"hoodie.index.bucket.engine": "CONSISTENT_HASHING"}),  # says nothing without the index BUCKET
    ],
)
def test_an_index_that_fits_the_table_is_taken(kind: str, options: dict[str, Any]) -> None:
    table = hudi.create_table(f"memory://new/{uuid4()}", ORDERS, "id", "day", table_type=kind, options=options)
    table.upsert(orders((1, "a", 1.0, 1)))
    table.upsert(orders((1, "a", 2.0, 2)))
    assert rows(table, "id", "price") == [(1, 2.0)]
