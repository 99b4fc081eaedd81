"""Refuse the verbs of PySpark that would make an entry of Spark's catalog for ``format("pyhudi")``, before Spark does anything.

Spark passes no options of an entry to a source in Python, not even the path. So such an entry can never be read, and ``saveAsTable`` would write rows
and leave a useless entry. The source cannot see the difference: a writer gets the same options from ``save(path)`` and from ``saveAsTable``, and
``CREATE TABLE`` with columns calls no Python at all. Therefore `refuse_entries` wraps the methods of PySpark's classes, once for each process. Calls
for other formats do not change. Programs in other languages get Spark's own behaviour: see ``docs/spark.md``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from pyspark.errors import ParseException, PySparkException
from pyspark.sql import DataFrameWriter, DataFrameWriterV2, SparkSession
from pyspark.sql.catalog import Catalog

from pyhudi_core.errors import UnsupportedTableError

_NAME = "pyhudi"
_WRAPPED = "_pyhudi_wrapped"
_CREATING = frozenset({"CreateTable", "CreateTableAsSelect", "ReplaceTable", "ReplaceTableAsSelect"})
"""The plans of Spark's parser that make an entry."""
_INSTEAD = (
    "Nothing was written. Make the table with pyhudi.create_table(location, df.schema, record_key=...), and write with table.upsert(df) or "
    'df.write.format("pyhudi").mode("append").save(location). For SQL: CREATE TEMPORARY VIEW name USING pyhudi OPTIONS (path \'...\').'
)
_NOT_BY_VERB = re.compile(
    r"Cannot write to `pyhudi`|Table does not support \w+: pyhudi|Table `pyhudi` does not support"
)


def refuse_entries() -> None:
    """Wrap the verbs of PySpark, once. Wrapped, they raise `UnsupportedTableError` for this format."""
    _wrap(DataFrameWriter, "save", _refuse_save)
    _wrap(DataFrameWriter, "saveAsTable", _refuse_save_as_table)
    _wrap(DataFrameWriter, "insertInto", _pass)
    for verb in ("create", "replace", "createOrReplace"):
        _wrap(DataFrameWriterV2, verb, _refuse_create)
    for verb in ("append", "overwrite", "overwritePartitions"):
        _wrap(DataFrameWriterV2, verb, _pass)
    _wrap(Catalog, "createTable", _refuse_create_table)
    _wrap(SparkSession, "sql", _refuse_statement)


def _wrap(owner: type, verb: str, refuse: Callable[..., None]) -> None:
    original = getattr(owner, verb)
    if hasattr(original, _WRAPPED):
        return

    @wraps(original)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        refuse(self, *args, **kwargs)
        with _of_views():
            return original(self, *args, **kwargs)

    setattr(wrapped, _WRAPPED, True)
    setattr(owner, verb, wrapped)


@contextmanager
def _of_views() -> Iterator[None]:
    """Add advice to the error with which Spark refuses to change a view of this format. Spark refuses before it writes."""
    try:
        yield
    except PySparkException as error:
        if _NOT_BY_VERB.search(str(error)) is None:
            raise
        raise UnsupportedTableError(
            "Spark cannot change a table by this verb on a view of it",
            hint="Nothing was written. Write with table.upsert(df), table.insert(df), table.delete(where=...) or table.insert_overwrite(df), or with "
            'df.write.format("pyhudi").mode("append").save(location).',
        ) from error


def _pass(*_: Any, **__: Any) -> None:
    """Do nothing, because nothing is known before Spark resolves the name."""


# The arguments below have PySpark's names, because callers pass them by name.
def _refuse_save(
    writer: Any,
    path: Any = None,
    format: Any = None,  # noqa: A002
    mode: Any = None,
    partitionBy: Any = None,  # noqa: N803
    **_: Any,
) -> None:
    if not _is_own(format or writer._jwrite.source()):
        return
    said = str(mode or writer._jwrite.curmode()).lower()
    if said in ("error", "errorifexists", "ignore", "default"):
        raise UnsupportedTableError(
            f'format("pyhudi") writes into a table that exists, so mode({said!r}) has no meaning',
            hint='Use mode("append"): option("operation", ...) says whether rows are upserted, inserted or deleted. '
            "pyhudi.create_table(location, df.schema, record_key=...) makes a table. Nothing was written.",
        )
    if (
        partitionBy
        or writer._jwrite.partitioningColumns().isDefined()
        or writer._jwrite.clusteringColumns().isDefined()
    ):
        raise UnsupportedTableError(
            "partitionBy and clusterBy cannot be used: the table knows its partition columns",
            hint="Omit them. pyhudi.create_table(..., partition_by=...) chooses them. Nothing was written.",
        )


def _refuse_save_as_table(writer: Any, name: Any = None, format: Any = None, *_: Any, **__: Any) -> None:  # noqa: A002
    _refuse_entry(format or writer._jwrite.source(), "saveAsTable")


def _refuse_create(writer: Any) -> None:
    java = writer._jwriter
    field = java.getClass().getDeclaredField("provider")
    field.setAccessible(True)
    chosen = field.get(java)
    _refuse_entry(chosen.get() if chosen.isDefined() else None, "writeTo")


def _refuse_create_table(
    catalog: Any,
    tableName: Any,  # noqa: N803
    path: Any = None,
    source: Any = None,
    *_: Any,
    **__: Any,
) -> None:
    _refuse_entry(source, "catalog.createTable")


def _refuse_statement(session: Any, sqlQuery: Any, *_: Any, **__: Any) -> None:  # noqa: N803
    if not isinstance(sqlQuery, str) or _NAME not in sqlQuery.lower():
        return
    try:
        plan = session._jsparkSession.sessionState().sqlParser().parsePlan(sqlQuery)
    except ParseException:
        return  # Spark's own error says this
    if str(plan.getClass().getSimpleName()) in _CREATING:
        chosen = plan.tableSpec().provider()
        _refuse_entry(chosen.get() if chosen.isDefined() else None, "CREATE TABLE")


def _refuse_entry(provider: Any, verb: str) -> None:
    if _is_own(provider):
        raise UnsupportedTableError(
            f'{verb} would make an entry of Spark\'s catalog that can never be read: Spark passes no options of it to format("pyhudi")',
            hint=_INSTEAD,
        )


def _is_own(provider: Any) -> bool:
    return provider is not None and str(provider).lower() == _NAME
