"""A dataset as a view of a DuckDB connection."""

from __future__ import annotations

from typing import Any

from pyhudi_core.errors import InvalidOptionError

_STORED = """
    SELECT kind FROM (
        SELECT 'table' AS kind, database_name, schema_name, table_name AS name FROM duckdb_tables()
        UNION ALL SELECT 'view', database_name, schema_name, view_name FROM duckdb_views() WHERE NOT temporary
    ) WHERE lower(name) = lower($name) AND database_name = current_database() AND schema_name = current_schema()
"""


def made(connection: Any, name: str, dataset: Any) -> Any:
    """Register a dataset as a temporary view, in place of an earlier one, and return the connection.

    Raises `InvalidOptionError` if a table or a stored view has the name, which the temporary view would hide from all queries, or if DuckDB refuses.
    """
    try:
        # Another cursor, because a query would end an open result of the connection.
        stored = connection.cursor().execute(_STORED, {"name": name}).fetchone()
        registered = None if stored else connection.register(name, dataset)
    except Exception as error:
        raise InvalidOptionError(
            f"DuckDB did not make the view {name!r}: {error!s:.200}",
            hint="Give an open connection, and a name that no table of it has.",
        ) from error
    if stored:
        raise InvalidOptionError(
            f"The connection has a {stored[0]} {name!r}, which the view of the scan would hide",
            hint="Choose another name for the view. Nothing was changed.",
        )
    return registered
