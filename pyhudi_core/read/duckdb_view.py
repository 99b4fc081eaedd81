"""A dataset as a view of a DuckDB connection."""

from __future__ import annotations

from typing import Any

from pyhudi_core.errors import InvalidOptionError

_NOT_THERE = "CatalogException"


def made(connection: Any, name: str, dataset: Any) -> Any:
    """Register a dataset as a temporary view, in place of an earlier one, and return the connection.

    Raises `InvalidOptionError` if a table or a stored view has the name, which the temporary view would hide from all queries, or if DuckDB refuses.
    """
    try:
        stored = _stored(connection, name)
        registered = None if stored else connection.register(name, dataset)
    except Exception as error:
        raise InvalidOptionError(
            f"DuckDB did not make the view {name!r}: {error!s:.200}",
            hint="Give an open connection, and a name that no table of it has.",
        ) from error
    if stored:
        raise InvalidOptionError(
            f"The connection has a {stored} {name!r}, which the view of the scan would hide",
            hint="Choose another name for the view. Nothing was changed.",
        )
    return registered


def _stored(connection: Any, name: str) -> str:
    """Return what the name is for the connection, ``table`` or ``view``; empty if nothing has it, or a temporary view, which may be ours.

    The connection itself resolves the name, because only this connection knows its schema and its open transaction. An open result stays readable.
    """
    quoted = '"' + name.replace('"', '""') + '"'
    kind = _kind(connection, quoted)
    if kind == "TABLE_RELATION":
        return "table"
    return "view" if kind and not _kind(connection, f"temp.{quoted}") else ""


def _kind(connection: Any, name: str) -> str:
    try:
        return str(connection.table(name).type)
    except Exception as error:
        if type(error).__name__ == _NOT_THERE:
            return ""
        raise
