"""Keep a state by a savepoint, write something wrong, go back. It needs neither Spark nor Java."""

import tempfile

import pyarrow as pa

import pyhudi as hudi

rows = pa.table({"id": [1, 2], "day": ["2026-01-01", "2026-01-02"], "price": [9.5, 7.0]})
table = hudi.create_table(f"{tempfile.mkdtemp()}/orders", schema=rows.schema, record_key="id", partition_by="day")
table.upsert(rows)
saved = table.savepoints.create(comment="before the migration")

table.upsert(rows.set_column(2, "price", pa.array([950.0, 700.0])))  # cents, by mistake
last = table.delete(where="id = 2")

print(table.rollback.plan(last.instant))  # the newest commit alone
print(table.restore.plan(saved))  # all commits after the savepoint
print(table.restore(saved))
print(table.scan(columns=["id", "price"]).to_arrow().to_pylist())
assert table.check().ok
