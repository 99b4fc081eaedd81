"""The differences between classic sessions of Spark and sessions of Spark Connect, as one protocol.

The rest of the engine uses only the common interface: DataFrames, ``mapInArrow``, ``persist`` and the settings of the session.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa


class Payloads(Protocol):
    """One pickled value for each task; a task finds it in ``value``."""

    @property
    def value(self) -> list[bytes]: ...


class Session(Protocol):
    """The requests of the engine to a session, in addition to the common interface of both kinds."""

    @property
    def cores(self) -> int:
        """Return the number of concurrent tasks."""
        ...

    @property
    def owner(self) -> Hashable:
        """Return a value that is equal for all Python objects of one session."""
        ...

    @property
    def runs_here(self) -> bool:
        """Say whether tasks run on this machine, with this process's interpreter."""
        ...

    @property
    def python(self) -> str:
        """Return the interpreter of the session's workers; empty if it is unknown here."""
        ...

    def refuse_unusable(self) -> None:
        """Raise `ConfigError` if the session was stopped or does not answer."""
        ...

    def estimated_bytes(self, frame: Any) -> int:
        """Return the optimizer's estimate of the bytes of the rows; very large if the optimizer has none."""
        ...

    def is_at_driver(self, frame: Any) -> bool:
        """Say whether the planning process already has all rows, such as rows of a short list."""
        ...

    def reads_alike(self, frame: Any) -> bool:
        """Say whether a second read of the rows is cheap and gives the same rows."""
        ...

    def send(self, values: list[bytes]) -> Payloads:
        """Bring values to all tasks."""
        ...

    def release(self, payloads: Payloads) -> None:
        """Forget values that no task needs any more."""
        ...

    def batches_at_most(self, frame: Any, limit: int) -> list[pa.RecordBatch] | None:
        """Return the rows of a frame; None if they have more than ``limit`` bytes, or if the last column says that a task had too many rows.

        In both cases the job has ended.
        """
        ...

    def run_each(self, sent: Sequence[Any], run: Callable[[Iterable[Any]], Iterator[bytes]]) -> list[bytes]:
        """Run a function on each value in a separate task; return the results, one for each value, in order."""
        ...

    def spread(self, values: Sequence[bytes]) -> Any:
        """Return a frame with the values in the binary column ``value``, each in its own task."""
        ...

    def ship(self, archive: str) -> None:
        """Let workers of the session import the packages in a file."""
        ...

    def root_for(self, location: str, path: str, size: int) -> str | None:
        """Return the location of a table's folder in the form that the session can open; None if the session cannot open the given file of the
        folder.

        The file's size shows whether the session opens the table's store, or another store with the same name.
        """
        ...


def roots(location: str) -> list[str]:
    """Return the forms in which Hadoop may open a location: a local folder, or a bucket by S3A or EMRFS."""
    if location.startswith("/"):
        return [f"file:{location}"]
    scheme, _, rest = location.partition("://")
    return [f"s3a://{rest}", f"s3://{rest}"] if scheme in ("s3", "s3a") else []
