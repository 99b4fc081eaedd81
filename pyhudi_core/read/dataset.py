"""A scan as a ``pyarrow.dataset.Dataset``, the interface by which DuckDB pushes columns and conditions down. Polars has another interface
(`polars_source`).

DuckDB calls ``scanner(columns=..., filter=...)`` with a pyarrow expression. The expression is added to the scan's own condition: it prunes partitions
and files as ``where`` does, and filters rows.

The C++ code of pyarrow also reads datasets directly, for example the right side of another dataset's join. A Python class cannot serve such reads. So
for C++ this dataset is a union of one unreadable file; a read of it raises an error that says what to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from io import RawIOBase
from typing import Any, NoReturn, Protocol, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from pyhudi_core.errors import ConfigError

_READ_FIRST = "Read it first, with to_table(), or with scanner() for a stream."
_SIZE = 1 << 20  # so large that pyarrow tries to read it, and gets the error


class DatasetRows(Protocol):
    """The methods that a dataset needs of its scan (`pyhudi.Scan`)."""

    @property
    def schema(self) -> pa.Schema: ...
    def narrowed(self, columns: Sequence[str] | None, condition: pc.Expression | None) -> Self: ...
    def to_reader(self) -> pa.RecordBatchReader: ...
    def head(self, rows: int) -> pa.Table: ...
    def count(self) -> int: ...


class ScanDataset(ds.UnionDataset):  # type: ignore[misc]
    """A dataset of the rows of one scan. Reading it twice gives the same rows.

    A scan has no fragments and no children: requesting them raises `ConfigError`, and so does including this dataset in another one.
    """

    def __init__(self, scan: DatasetRows) -> None:
        file_format = ds.IpcFileFormat()
        fragment = file_format.make_fragment(_Unreadable())
        super().__init__(scan.schema, [ds.FileSystemDataset([fragment], scan.schema, file_format)])
        self._scan = scan

    def __reduce__(self) -> tuple[object, ...]:
        return (ScanDataset, (self._scan,))

    @property
    def schema(self) -> pa.Schema:
        """The columns of the scan."""
        return self._scan.schema

    @property
    def partition_expression(self) -> pc.Expression:
        """An expression that is true for all rows: this dataset promises nothing."""
        return pc.scalar(True)

    def narrowed(self, columns: Sequence[str] | None = None, condition: pc.Expression | None = None) -> DatasetRows:
        """Return the scan with fewer columns, and with an additional condition."""
        return self._scan.narrowed(columns, condition)

    def scanner(
        self,
        columns: Sequence[str] | Mapping[str, pc.Expression] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002  (the name of the interface)
        **_: Any,
    ) -> ds.Scanner:
        """Return a scanner of some columns, or of expressions by name, for the rows that match a pyarrow expression."""
        if isinstance(columns, Mapping):
            whole = self.narrowed(condition=filter)
            return ds.Scanner.from_batches(whole.to_reader(), columns=dict(columns))
        if columns is not None and not len(columns):
            # Only the number of rows is needed: batches without columns, as in pyarrow's own datasets.
            return ds.Scanner.from_batches(self.narrowed(condition=filter).to_reader(), columns=[])
        return ds.Scanner.from_batches(self.narrowed(columns, filter).to_reader())

    def to_batches(self, columns: Any = None, filter: Any = None, **_: Any) -> Iterator[pa.RecordBatch]:  # noqa: A002
        """Iterate over the batches of `scanner`."""
        yield from self.scanner(columns, filter).to_batches()

    def to_table(self, columns: Any = None, filter: Any = None, **_: Any) -> pa.Table:  # noqa: A002
        """Read the rows of `scanner`."""
        return self.scanner(columns, filter).to_table()

    def head(self, num_rows: int, columns: Any = None, filter: Any = None, **_: Any) -> pa.Table:  # noqa: A002
        """Read the first rows of `scanner`."""
        return self.narrowed(columns, filter).head(num_rows)

    def count_rows(self, filter: Any = None, **_: Any) -> int:  # noqa: A002
        """Return the number of rows, as `Scan.count` does."""
        return self.narrowed(condition=filter).count()

    def filter(self, expression: pc.Expression) -> ScanDataset:
        """Return the dataset of the rows that match a pyarrow expression."""
        return ScanDataset(self.narrowed(condition=expression))

    def take(self, indices: Any, columns: Any = None, filter: Any = None, **_: Any) -> pa.Table:  # noqa: A002
        """Read `scanner`, and return the rows with these numbers, from 0."""
        return self.to_table(columns, filter).take(indices)

    def sort_by(self, sorting: Any, **options: Any) -> ds.InMemoryDataset:
        """Read all rows, and sort them as ``pyarrow.Table.sort_by`` does."""
        return ds.InMemoryDataset(self.to_table().sort_by(sorting, **options))

    def join(self, right_dataset: Any, *arguments: Any, **options: Any) -> ds.InMemoryDataset:
        """Read all rows of both sides, and join them as ``pyarrow.Table.join`` does. The right side is a dataset, a scan or a table."""
        return ds.InMemoryDataset(self.to_table().join(_read(right_dataset), *arguments, **options))

    def join_asof(self, right_dataset: Any, *arguments: Any, **options: Any) -> ds.InMemoryDataset:
        """Read all rows of both sides, and join them as ``pyarrow.Table.join_asof`` does; both sides must be sorted."""
        return ds.InMemoryDataset(self.to_table().join_asof(_read(right_dataset), *arguments, **options))

    def get_fragments(self, filter: Any = None) -> NoReturn:  # noqa: A002
        """Raise `ConfigError`: rows are merged from several files."""
        raise ConfigError(
            "The dataset of a scan has no fragments, as its rows are merged from base files and logs",
            hint="Scan.tasks() gives the parts of a scan that other processes can read.",
        )

    @property
    def children(self) -> NoReturn:
        """Raise `ConfigError`: a scan is one dataset."""
        raise ConfigError("The dataset of a scan has no children", hint=_READ_FIRST)

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Raise `ConfigError`: the types are those of the table."""
        raise ConfigError(
            "The dataset of a scan keeps the table's schema",
            hint="Call to_table(columns) with expressions by name that cast, or to_table().cast(schema).",
        )


class _Unreadable(RawIOBase):
    """A file that raises an error when it is read. The error says what to do instead."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, *_: int) -> int:
        # pyarrow requests the size when it makes a fragment. An error here would keep the caller's frames in memory permanently.
        return 0

    def tell(self) -> int:
        return _SIZE

    def read(self, *_: int) -> NoReturn:
        raise ConfigError("pyarrow cannot take the dataset of a scan into another dataset", hint=_READ_FIRST)


def _read(side: Any) -> pa.Table:
    return side.to_table() if isinstance(side, ds.Dataset) else pa.table(side)
