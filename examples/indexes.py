"""Build an index while rows are written, use it, and drop it. It needs neither Spark nor Java."""

import tempfile

import pyarrow as pa

import pyhudi as hudi

rows = pa.table({"id": [1, 2, 3], "day": ["2026-01-01", "2026-01-02", "2026-01-02"], "price": [9.5, 7.0, 8.0]})
table = hudi.create_table(f"{tempfile.mkdtemp()}/orders", schema=rows.schema, record_key="id", partition_by="day")
table.upsert(rows)

table.indexing.schedule(["record_index"])  # a plan on the timeline: any process may build the index
table.upsert(rows.slice(0, 1).set_column(2, "price", pa.array([9.9])))  # writers do not wait for it
print(table.indexing.execute())

print(table.sql("SHOW INDEXES FROM orders").to_pylist())
print(table.lookup(pa.table({"id": [2]})).to_arrow().column("price").to_pylist())
print(table.sql("DROP INDEX record_index ON orders"))
