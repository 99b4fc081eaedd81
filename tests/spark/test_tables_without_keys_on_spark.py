"""Tables without meta columns, with generated keys, or with the operation column, written by Spark's executors."""

from __future__ import annotations

from typing import Any

import pytest
from support.spark_frames import frame
from support.tables import make, orders, rows

from pyhudi_core.errors import DuplicateKeyError
from pyhudi_core.model.meta_fields import OPERATION


@pytest.mark.row("E9", "E10", "J7")
def test_dataframes_go_to_tables_without_keys_or_meta_columns(spark: Any, location: str, way: str) -> None:
    batch = frame(spark, orders(*((key, "ab"[key % 2], float(key)) for key in range(20))))
    plain = make(f"{location}/plain", options={"hoodie.populate.meta.fields": "false"})
    plain.insert(batch)
    plain.bulk_insert(frame(spark, orders((100, "a", 1.0))))
    with pytest.raises(DuplicateKeyError):
        plain.insert(frame(spark, orders((3, "b", 1.0))))
    assert len(rows(plain, "id")) == plain.scan().to_spark(spark).count() == 21
    keyless = make(f"{location}/keyless", record_key=())
    keyless.insert(batch)
    keyless.insert(batch)
    keys = [row[0] for row in rows(keyless, "_hoodie_record_key")]
    assert (len(keys), len(set(keys))) == (40, 40)
    six = make(f"{location}/six", options={"hoodie.allow.operation.metadata.field": "true"})
    six.upsert(batch)
    six.upsert(frame(spark, orders((3, "b", 9.0))))
    shown = six.scan().to_spark(spark)
    assert (shown.columns[5], shown.where(f"{OPERATION} is null").count()) == (OPERATION, 20)
