"""A scan as a ``pyarrow.dataset.Dataset``, the interface by which DuckDB and Polars push columns and conditions down.

They call ``scanner(columns=..., filter=...)`` with a pyarrow expression. The condition prunes partitions and files as ``where`` does, and decides on
each row; it is added to the scan's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds


class Rows(Protocol):
    """What a dataset asks of its scan (`pyhudi_core.Scan`)."""

    @property
    def schema(self) -> pa.Schema: ...
    def narrowed(self, columns: Sequence[str] | None, condition: pc.Expression | None) -> Self: ...
    def to_reader(self) -> pa.RecordBatchReader: ...
    def head(self, rows: int) -> pa.Table: ...
    def count(self) -> int: ...


class ScanDataset(ds.Dataset):  # type: ignore[misc]
    """A dataset of the rows of one scan; reading it twice gives the same rows."""

    def __init__(self, scan: Rows) -> None:  # the constructor of the base class refuses to be called
        self._scan = scan

    def __reduce__(self) -> tuple[object, ...]:
        return (ScanDataset, (self._scan,))

    @property
    def schema(self) -> pa.Schema:
        """The columns of the scan."""
        return self._scan.schema

    def narrowed(self, columns: Sequence[str] | None = None, condition: pc.Expression | None = None) -> Rows:
        """The scan with fewer columns, and with a condition beside its own."""
        return self._scan.narrowed(columns, condition)

    def scanner(
        self,
        columns: Sequence[str] | Mapping[str, pc.Expression] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002  (the name of the interface)
        **_: Any,
    ) -> ds.Scanner:
        """A scanner of some columns, or of expressions by name, and of the rows that a pyarrow expression keeps."""
        if isinstance(columns, Mapping):
            whole = self.narrowed(condition=filter)
            return ds.Scanner.from_batches(whole.to_reader(), columns=dict(columns))
        if columns is not None and not len(columns):
            # Only the number of rows is wanted: batches without columns, as pyarrow's own datasets give them.
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
        """The number of rows, as `Scan.count` finds it."""
        return self.narrowed(condition=filter).count()
