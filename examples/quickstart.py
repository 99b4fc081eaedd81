"""Write, update, read, read an earlier state, read what changed. It needs neither Spark nor Java."""

import tempfile

import pyarrow as pa

import pyhudi as hudi

rows = pa.table({"id": [1, 2], "day": ["2026-01-01", "2026-01-02"], "price": [9.5, 7.0]})
table = hudi.create_table(f"{tempfile.mkdtemp()}/orders", schema=rows.schema, record_key="id", partition_by="day")
first = table.upsert(rows)
second = table.upsert(rows.slice(0, 1).set_column(2, "price", pa.array([8.0])))

print(second)
print(table.scan(columns=["id", "price"], where="day = '2026-01-01'").to_arrow().to_pylist())
print(table.scan(columns=["id", "price"], as_of=first.completion_time).to_arrow().to_pylist())
print(table.incremental(after=first.completion_time, columns=["id", "price"]).to_arrow().to_pylist())
