"""The five or six meta columns that Hudi puts before a table's columns (specification, section "Meta Fields")."""

from __future__ import annotations

import pyarrow as pa

COMMIT_TIME = "_hoodie_commit_time"
COMMIT_SEQNO = "_hoodie_commit_seqno"
RECORD_KEY = "_hoodie_record_key"
PARTITION_PATH = "_hoodie_partition_path"
FILE_NAME = "_hoodie_file_name"
OPERATION = "_hoodie_operation"
IS_DELETED = "_hoodie_is_deleted"

META_FIELDS = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME)
META_SCHEMA = pa.schema([pa.field(name, pa.string()) for name in META_FIELDS])


def with_meta_fields(schema: pa.Schema, *, operation: bool = False) -> pa.Schema:
    """Return the schema of base files and scans: the meta columns first (with ``operation`` also the sixth), then the table's columns."""
    return pa.schema([*META_SCHEMA, *([pa.field(OPERATION, pa.string())] if operation else ()), *schema])
