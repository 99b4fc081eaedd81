"""Peers of the local engine: `python -m benchmarks.peers.local_peers deltalake|pyiceberg`, in the environment of requirements-peers.lock.

Both get Arrow data, as the local engine does, and write zstd at level 1, as it does. Otherwise they run with their defaults.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks import workload
from benchmarks.peers.serve import Verb, cleared, measured, serve

MATCH = "t.id = s.id AND t.part = s.part"
CODEC, LEVEL = "zstd", 1


def small_commits(insert: Callable[[pa.Table], object], command: dict[str, Any]) -> dict[str, Any]:
    """Commits of new rows of one partition, one after the other; the seconds of all, of a tenth of them from the tenth on, and of the last tenth."""
    count, each = command["commits"], command["rows"]
    numbers = np.arange(count * each).reshape(count, each) * workload.PARTITIONS
    batches = [workload.rows(chosen, 0) for chosen in numbers]
    seconds = [measured(partial(insert, rows))["seconds"] for rows in batches]
    tenth, start = max(1, count // 10), min(9, count // 5)
    return {"seconds": sum(seconds), "first": seconds[start : start + tenth], "last": seconds[-tenth:]}


def import_of(statement: str) -> dict[str, Any]:
    """The seconds of a new interpreter that imports a package, opens a table, and ends. Compiled modules are kept, as users' interpreters do."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return measured(lambda: subprocess.run([sys.executable, "-P", "-c", statement], check=True, env=environment))


def one_row(read: Callable[[], pa.Table]) -> dict[str, Any]:
    """The seconds of a read by key. Raises ValueError unless it gives one row."""
    found: list[pa.Table] = []
    answer = measured(lambda: found.append(read()))
    if found[0].num_rows != 1:
        raise ValueError(f"the read gave {found[0].num_rows} rows, not one")
    return answer


def start_deltalake() -> dict[str, Verb]:
    """The verbs of deltalake."""
    from deltalake import DeltaTable, QueryBuilder, WriterProperties, write_deltalake

    properties = WriterProperties(compression=CODEC.upper(), compression_level=LEVEL)

    def append(path: str, rows: pa.Table) -> None:
        write_deltalake(path, rows, partition_by=[workload.PARTITION], mode="append", writer_properties=properties)

    def merge(command: dict[str, Any]) -> Any:
        rows = pq.read_table(command["data"])
        table = DeltaTable(command["table"])
        return table.merge(rows, MATCH, source_alias="s", target_alias="t", writer_properties=properties)

    def load(command: dict[str, Any]) -> dict[str, Any]:
        path = cleared(command["table"])
        return measured(lambda: append(path, pq.read_table(command["data"])))

    def upsert(command: dict[str, Any]) -> dict[str, Any]:
        return measured(lambda: merge(command).when_matched_update_all().when_not_matched_insert_all().execute())

    def commits(command: dict[str, Any]) -> dict[str, Any]:
        path = cleared(command["table"])
        return small_commits(lambda rows: append(path, rows), command)

    def key(command: dict[str, Any]) -> dict[str, Any]:
        # Its own engine: a condition on the texts of its Arrow dataset fails ("no kernel matching input types (string, string_view)").
        query = f"SELECT * FROM t WHERE {workload.KEY} = '{command['key']}'"

        def read() -> pa.Table:
            return pa.table(QueryBuilder().register("t", DeltaTable(command["table"])).execute(query))

        return one_row(read)

    def filtered(command: dict[str, Any]) -> dict[str, Any]:
        few = ds.field(command["column"]) < command["below"]
        return measured(lambda: DeltaTable(command["table"]).to_pyarrow_dataset().to_table(filter=few))

    def scan(command: dict[str, Any]) -> dict[str, Any]:
        return measured(lambda: DeltaTable(command["table"]).to_pyarrow_table())

    return {
        "load": load,
        "upsert": upsert,
        "filtered": filtered,
        "filtered_data": filtered,
        "delete": lambda command: measured(lambda: merge(command).when_matched_delete().execute()),
        "scan": scan,
        "data": scan,
        "key": key,
        "counted": lambda command: measured(lambda: DeltaTable(command["table"]).to_pyarrow_dataset().count_rows()),
        "import": lambda command: import_of(f"from deltalake import DeltaTable; DeltaTable({command['table']!r})"),
        "commits": commits,
        "count": lambda command: {"rows": DeltaTable(command["table"]).to_pyarrow_table().num_rows},
    }


def start_pyiceberg() -> dict[str, Verb]:
    """The verbs of PyIceberg, with a catalog in SQLite beside each table."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.expressions import EqualTo, In, LessThan

    name = "bench.rows"

    def catalog(path: str) -> SqlCatalog:
        return SqlCatalog("bench", uri=f"sqlite:///{path}/catalog.db", warehouse=f"file://{path}")

    def create(path: str) -> Any:
        Path(cleared(path)).mkdir(parents=True)
        here = catalog(path)
        here.create_namespace("bench")
        codec = {"write.parquet.compression-codec": CODEC, "write.parquet.compression-level": str(LEVEL)}
        table = here.create_table(name, workload.SCHEMA, properties=codec)
        with table.update_spec() as spec:
            spec.add_identity(workload.PARTITION)
        return here.load_table(name)

    def opened(command: dict[str, Any]) -> Any:
        return catalog(command["table"]).load_table(name)

    def load(command: dict[str, Any]) -> dict[str, Any]:
        table = create(command["table"])
        return measured(lambda: table.append(pq.read_table(command["data"])))

    def upsert(command: dict[str, Any]) -> dict[str, Any]:
        return measured(lambda: opened(command).upsert(pq.read_table(command["data"]), join_cols=[workload.KEY]))

    def delete(command: dict[str, Any]) -> dict[str, Any]:
        def work() -> None:
            keys = pq.read_table(command["data"], columns=[workload.KEY]).column(0).to_pylist()
            opened(command).delete(In(workload.KEY, keys))

        return measured(work)

    def key(command: dict[str, Any]) -> dict[str, Any]:
        wanted = EqualTo(workload.KEY, command["key"])
        return one_row(lambda: opened(command).scan(row_filter=wanted).to_arrow())

    def filtered(command: dict[str, Any]) -> dict[str, Any]:
        few = LessThan(command["column"], command["below"])
        return measured(lambda: opened(command).scan(row_filter=few).to_arrow())

    def scan(command: dict[str, Any]) -> dict[str, Any]:
        return measured(lambda: opened(command).scan().to_arrow())

    return {
        "load": load,
        "upsert": upsert,
        "delete": delete,
        "filtered": filtered,
        "filtered_data": filtered,
        "scan": scan,
        "data": scan,
        "key": key,
        "counted": lambda command: measured(lambda: opened(command).scan().count()),
        "import": lambda command: import_of(
            "from pyiceberg.catalog.sql import SqlCatalog\n"
            f"at = {command['table']!r}\n"
            f"SqlCatalog('bench', uri=f'sqlite:///{{at}}/catalog.db', warehouse=f'file://{{at}}').load_table({name!r})"
        ),
        "commits": lambda command: small_commits(create(command["table"]).append, command),
        "count": lambda command: {"rows": opened(command).scan().to_arrow().num_rows},
    }


if __name__ == "__main__":
    serve({"deltalake": start_deltalake, "pyiceberg": start_pyiceberg}[sys.argv[1]])
