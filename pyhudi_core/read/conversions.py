"""Conversions of rows that are read: one base class for scans of rows and for changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import InvalidOptionError, needing
from pyhudi_core.naming import NamesInstead


class Conversions(NamesInstead, ABC):
    """Rows that are read on request. ``most`` is the number of rows of `limit`, None for all."""

    __slots__ = ()
    _INSTEAD: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("__len__", "num_rows", "shape", "size", "len"), ".count()"),
        **dict.fromkeys(
            ("__iter__", "iter_rows", "to_pylist", "to_dicts", "to_list", "fetchall"),
            ".to_arrow().to_pylist(), or .to_batches() for batches of Arrow",
        ),
        "__getitem__": ".head(n), or table.scan(columns=[...], where=condition)",
        "__contains__": "table.scan(where=condition).count(), or table.lookup(keys)",
        **dict.fromkeys(("to_df", "df", "toPandas"), ".to_pandas()"),
        **dict.fromkeys(("to_pl", "pl", "lazy"), ".to_polars()"),
        **dict.fromkeys(
            ("to_pyarrow", "to_pyarrow_table", "to_table", "arrow", "collect", "read", "read_all", "load", "compute"),
            ".to_arrow()",
        ),
        **dict.fromkeys(("to_pyarrow_dataset", "dataset"), ".to_dataset()"),
        **dict.fromkeys(("to_arrow_batch_reader", "to_record_batch_reader", "to_pyarrow_reader"), ".to_reader()"),
        **dict.fromkeys(("first", "show", "take", "tail", "sample"), ".head(n)"),
        **dict.fromkeys(("filter", "where", "select"), "table.scan(columns=[...], where=condition)"),
        **dict.fromkeys(
            ("order_by", "sort", "sort_by", "sort_values", "group_by", "groupby", "agg", "join"),
            ".to_arrow(), .to_pandas() or .to_polars(), which can do it",
        ),
        **dict.fromkeys(
            ("to_csv", "to_parquet", "write_csv", "write_parquet", "to_json"), ".to_arrow() and what writes it"
        ),
        **dict.fromkeys(("columns", "column_names", "dtypes"), ".schema"),
    }
    most: int | None

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The result's columns."""

    @abstractmethod
    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows in batches."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """Read all rows into one table."""

    @abstractmethod
    def narrowed(self, columns: Sequence[str] | None, condition: pc.Expression | None) -> Self:
        """Return a read with at least these columns, and at least the rows that meet the condition."""

    @abstractmethod
    def _limited(self, most: int) -> Self: ...

    def limit(self, rows: int) -> Self:
        """Return the same read, limited to this number of rows. The choice of rows is not defined, but stays the same for one read."""
        if not isinstance(rows, int) or rows < 0:
            raise InvalidOptionError(f"limit({rows!r}) is not a number of rows", hint="Give 0 or more.")
        return self._limited(rows if self.most is None else min(rows, self.most))

    def head(self, rows: int = 5) -> pa.Table:
        """Read the first rows, and only the required files. The choice of rows is not defined, but stays the same for one read."""
        return self.limit(rows).to_arrow()

    def count(self) -> int:
        """Return the number of rows."""
        return sum(batch.num_rows for batch in self.to_batches())

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream, which reads while it is consumed. Memory is bounded as for `to_batches`."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows for libraries that accept Arrow's C stream interface: pyarrow, polars, pandas, DuckDB and others."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """Read all rows into a pandas DataFrame, with the installed release of pandas. Raises `MissingExtraError` if there is none."""
        with needing("pandas", "to_pandas()"):
            import pandas  # noqa: F401, PLC0415  (checked before the rows are read)
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Return the rows as a Polars ``LazyFrame``. When it is collected, it reads only the files and columns that its query needs.

        Polars evaluates the conditions of the query (`polars_source`). The rows of a read with a `limit` are read now. Raises `MissingExtraError` if
        Polars is not installed.
        """
        with needing("polars", "to_polars()"):
            from pyhudi_core.read.polars_source import lazy_frame  # noqa: PLC0415  (users install their own release of Polars)
        return lazy_frame(self)
