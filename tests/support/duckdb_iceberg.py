"""DuckDB with its Iceberg extension, as a judge in a process of its own: started by the Python of an environment that has both. Imports nothing of
this project.

Each line of standard input names a table's folder and a file to write: the rows go there as Parquet; the answer is a line: empty, or what went wrong.
"""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg


def main() -> None:
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for package in (duckdb_extension_avro, duckdb_extension_iceberg):
        for found in Path(package.__file__).parent.rglob("*.duckdb_extension"):
            connection.execute(f"LOAD '{found}'")
    for line in sys.stdin:
        folder, _, target = line.strip().partition("\t")
        try:
            connection.execute(f"COPY (SELECT * FROM iceberg_scan('{folder}')) TO '{target}' (FORMAT PARQUET)")
            answer = ""
        except duckdb.Error as error:
            answer = str(error).replace("\n", " ")
        print(answer, flush=True)


if __name__ == "__main__":
    main()
