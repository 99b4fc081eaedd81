"""Commit requirements: preconditions of a caller for the commit, checked under the lock before anything is published.

As the requirements of a commit request in Iceberg's REST catalog, they are named, serialisable preconditions. A write has any number of
requirements (``table.begin(..., requirements=[...])``). The first requirement that fails ends the write with `CommitRequirementError`. The write is
not planned again, because its content depends on the requirement.

Invariant: ``requirement_from(requirement.to_dict()) == requirement``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from pyhudi_core.errors import CommitRequirementError, InvalidOptionError
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.help_pages import see
from pyhudi_core.model.instant import Instant
from pyhudi_core.model.printing import printable
from pyhudi_core.model.schema import from_avro, normalise, to_avro
from pyhudi_core.naming import set_module
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.timeline.commit_search import commits_holding


@dataclass(frozen=True, slots=True)
class TableState:
    """The state for which requirements are checked.

    Attributes:
        context: the table.
        timeline: the timeline, read under the lock.
        since: data commits that completed since the write was planned, oldest first.
        schema: the table's schema, when the write was planned.
        slice_of: the requested time of the newest base file of a (partition, file id), when the write was planned; None if there is none.
    """

    context: TableContext
    timeline: Timeline
    since: tuple[Instant, ...]
    schema: pa.Schema
    slice_of: Callable[[str, str], str | None]

    def commits_after(self, time: str, key: str = "") -> Iterator[tuple[Instant, CommitMetadata]]:
        """Iterate over commits that completed after a time, newest first. With ``key``, only over commits with an extra metadata key that begins with
        ``key``.

        Includes archived commits. This runs under the lock, so a file of the archived timeline is opened only if it can contain a commit that
        completed after the time. Raises `CorruptTimelineError` if archived commits cannot be read.
        """
        return commits_holding(self.context.folder, key, time, self.timeline)

    def touched_since(self, partition: str, file_id: str) -> Instant | None:
        """Return the commit that wrote or replaced a file group since the write was planned."""
        for instant in self.since:
            if (partition, file_id) in self.context.folder.read_commit(instant).file_groups():
                return instant
        return None


@set_module("pyhudi")
class CommitRequirement(Protocol):
    """A precondition of a commit."""

    TYPE: ClassVar[str]

    def failure(self, state: TableState) -> str | None:
        """Return the reason why the requirement fails, as a sentence; None if it holds."""
        ...

    def describe(self) -> str:
        """Return the requirement as text."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return the requirement as JSON values; `requirement_from` reads them."""
        ...


@dataclass(frozen=True, slots=True)
class _Named:
    """The common part of all requirements: their form as JSON values."""

    TYPE: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """Return the requirement as JSON values, ``type`` first."""
        values = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        return {"type": self.TYPE, **values}


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class LatestInstantIs(_Named):
    """A requirement: the newest commit, by completion, has this requested time; None: the table has no commit yet."""

    TYPE: ClassVar[str] = "latest-instant-is"

    instant: str | None

    def describe(self) -> str:
        """Return the requirement as text."""
        return f"the latest commit is {self.instant}" if self.instant else "the table has no commit"

    def failure(self, state: TableState) -> str | None:
        """Return the reason why the requirement fails; None if it holds."""
        commits = state.timeline.commits
        latest = commits[-1].requested_time if len(commits) else None
        return None if latest == self.instant else f"the latest commit is {latest}"


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class SchemaIs(_Named):
    """A requirement: the table has this schema, as Avro JSON (`of` takes a pyarrow schema)."""

    TYPE: ClassVar[str] = "schema-is"

    avro: str

    @classmethod
    def of(cls, schema: pa.Schema) -> SchemaIs:
        """Return the requirement for a pyarrow schema such as ``table.schema``. Raises `SchemaMismatchError` for types that a table cannot have."""
        return cls(to_avro(normalise(schema), "columns"))

    def describe(self) -> str:
        """Return the requirement as text."""
        return f"the table has the columns {', '.join(from_avro(self.avro).names)}"

    def failure(self, state: TableState) -> str | None:
        """Return the reason why the requirement fails; None if it holds."""
        text = state.context.folder.latest_schema(Timeline(tuple(sorted(state.since))))
        now = from_avro(text) if text else state.schema
        return None if now == from_avro(self.avro) else f"the table has the columns {', '.join(now.names)}"


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class PropertyIs(_Named):
    """A requirement: a property of the table has this value; None: the property is not set."""

    TYPE: ClassVar[str] = "property-is"

    key: str
    value: str | None

    def describe(self) -> str:
        """Return the requirement as text."""
        return f"the table's property {self.key} is {self.value!r}"

    def failure(self, state: TableState) -> str | None:
        """Return the reason why the requirement fails; None if it holds."""
        found = properties_file.read(state.context.storage).get(self.key)
        return None if found == self.value else f"it is {found!r}"


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class NoCommitAfter(_Named):
    """A requirement: no commit that completed after a time has changed one of the partitions (paths). No partitions means all.

    ``time`` is a completion time of 17 digits, such as ``commit.completion_time``.
    """

    TYPE: ClassVar[str] = "no-commit-after"

    time: str
    partitions: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return the requirement as text."""
        where = f" in {', '.join(map(repr, self.partitions))}" if self.partitions else ""
        return f"no commit after {self.time}{where}"

    def failure(self, state: TableState) -> str | None:
        """Return the reason why the requirement fails; None if it holds."""
        for instant, commit in state.commits_after(self.time):
            if not self.partitions or commit.partitions & set(self.partitions):
                return f"{instant.action} {instant.requested_time} completed at {instant.completion_time}"
        return None


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class FileGroupAt(_Named):
    """A requirement: the instant with this requested time wrote the newest slice of a file group; None: there is no such group."""

    TYPE: ClassVar[str] = "file-group-at"

    partition: str
    file_id: str
    instant: str | None

    def describe(self) -> str:
        """Return the requirement as text."""
        return f"file group {self.file_id} in {self.partition!r} is at {self.instant}"

    def failure(self, state: TableState) -> str | None:
        """Return the reason why the requirement fails; None if it holds."""
        changed = state.touched_since(self.partition, self.file_id)
        if changed is not None:
            return f"{changed.action} {changed.requested_time} changed it"
        found = state.slice_of(self.partition, self.file_id)
        return None if found == self.instant else f"it is at {found}"


@dataclass(frozen=True, slots=True)
class EntryIsOurs(_Named):
    """A requirement: no commit that completed after ``seen`` has this entry in its extra metadata.

    ``what`` names the entry, such as a consumer's checkpoint.
    """

    TYPE: ClassVar[str] = "entry-is-ours"

    key: str
    seen: str
    what: str

    def describe(self) -> str:
        """Return the requirement as text."""
        return f"no other process has moved {self.what}"

    def failure(self, state: TableState) -> str | None:
        """Return the reason why the requirement fails; None if it holds."""
        for instant, commit in state.commits_after(self.seen, self.key):
            if self.key in commit.extra:
                return f"the commit {instant.requested_time} has moved it to {commit.extra[self.key][:200]}"
        return None


_KINDS: Mapping[str, Callable[..., CommitRequirement]] = {
    kind.TYPE: kind for kind in (LatestInstantIs, SchemaIs, PropertyIs, NoCommitAfter, FileGroupAt, EntryIsOurs)
}


def requirement_from(values: Mapping[str, Any]) -> CommitRequirement:
    """Read a requirement from JSON values. Raises `InvalidOptionError` if the values are not a requirement."""
    kind = _KINDS.get(str(values.get("type")))
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    fields.pop("type", None)
    try:
        if kind is None:
            raise TypeError("its type is unknown")
        return kind(**fields)
    except TypeError as error:
        raise InvalidOptionError(
            f"{dict(values)!r} is not a commit requirement: {error}", hint=f"Types are {', '.join(sorted(_KINDS))}."
        ) from None


def checked_requirements(given: Sequence[CommitRequirement]) -> tuple[CommitRequirement, ...]:
    """Return the requirements, if all of them are requirements. Raises `InvalidOptionError` otherwise."""
    if not isinstance(given, Sequence) or not all(callable(getattr(one, "failure", None)) for one in given):
        raise InvalidOptionError(
            "requirements= takes a list of commit requirements",
            hint=f"For example requirements=[LatestInstantIs(commit.instant)]. {see('writing')}",
        )
    return tuple(given)


def refuse_unmet(requirements: Sequence[CommitRequirement], state: TableState, own: str) -> None:
    """Raise `CommitRequirementError` for the first requirement that does not hold."""
    for requirement in requirements:
        failure = requirement.failure(state)
        if failure is not None:
            raise CommitRequirementError(
                f"The commit requires that {requirement.describe()}, but {failure}",
                requirement=requirement,
                table=state.context.table,
                instant=own,
                hint="Nothing was published; look at the table as it is now, and begin again with what it should require.",
            )
