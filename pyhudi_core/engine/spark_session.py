"""What classic sessions of Spark and those of Spark Connect do differently, as one protocol.

The rest of the engine uses only what both have: DataFrames, ``mapInArrow``, ``persist`` and the settings of the session.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa


class Payloads(Protocol):
    """One pickled value for each task, as tasks find them: in ``value``."""

    @property
    def value(self) -> list[bytes]: ...


class Session(Protocol):
    """What the engine asks a session, beside what sessions of both kinds have."""

    @property
    def cores(self) -> int:
        """How many tasks run at once."""
        ...

    @property
    def owner(self) -> Hashable:
        """Equal for objects of Python that stand for one session."""
        ...

    @property
    def runs_here(self) -> bool:
        """Whether tasks run on this machine, by this process's interpreter."""
        ...

    @property
    def python(self) -> str:
        """The interpreter that its workers run; empty if it is not known here."""
        ...

    def refuse_unusable(self) -> None:
        """Raise `ConfigError` if the session was stopped or does not answer."""
        ...

    def estimated_bytes(self, frame: Any) -> int:
        """Return what Spark's optimizer expects the rows to take; huge where it cannot know."""
        ...

    def is_at_driver(self, frame: Any) -> bool:
        """Say whether the process that plans has all rows already, as those of a short list."""
        ...

    def reads_alike(self, frame: Any) -> bool:
        """Say whether reading the rows twice costs little and gives the same rows."""
        ...

    def send(self, values: list[bytes]) -> Payloads:
        """Bring values to all tasks."""
        ...

    def release(self, payloads: Payloads) -> None:
        """Forget values that no task needs any more."""
        ...

    def batches_at_most(self, frame: Any, limit: int) -> list[pa.RecordBatch] | None:
        """Return the rows of a frame, whose last column says where a task had too many; None if there are too many, or more than so many bytes.

        Then the job has ended, too.
        """
        ...

    def run_each(self, sent: Sequence[Any], run: Callable[[Iterable[Any]], Iterator[bytes]]) -> list[bytes]:
        """Run a function on each value in a task of its own; return what it yields, one for each value, in their order."""
        ...

    def ship(self, archive: str) -> None:
        """Let workers of the session import the packages in a file."""
        ...

    def root_for(self, location: str, path: str, size: int) -> str | None:
        """Return how the session itself opens a table's folder, given a file of it; None if it does not open that file.

        The file's size tells a store of the same name elsewhere from the table's.
        """
        ...


def roots(location: str) -> list[str]:
    """Return how Hadoop may call a location: a local folder, or a bucket by S3A or EMRFS."""
    if location.startswith("/"):
        return [f"file:{location}"]
    scheme, _, rest = location.partition("://")
    return [f"s3a://{rest}", f"s3://{rest}"] if scheme in ("s3", "s3a") else []
