"""What every step of a transaction needs: the place that is changed, and the protocol by which it is changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from pyhudi_core.lock.base import LockProvider
from pyhudi_core.model.commit import WRITER_KEY
from pyhudi_core.model.instant import format_time
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.options import WriteOptions
from pyhudi_core.runtime.base import Runtime
from pyhudi_core.storage.base import Storage
from pyhudi_core.timeline.active import Timeline, TimelineFolder
from pyhudi_core.transaction.place import TablePlace
from pyhudi_core.transaction.protections import Protections


class PreCommit(Protocol):
    """Pre-commit validators, which see what would be committed. They read tables, so they are made in a higher layer (``validators/``)."""

    def refuse_unfit(self, schema: pa.Schema) -> None:
        """Raise `HudiError` if a validator cannot be asked about rows of this schema; called before anything is written."""
        ...

    def run(self, attempt: Any, timeline: Timeline) -> bool:
        """Ask all validators about an attempt (``write.attempt.Attempt``) on top of this timeline, without the lock. Raises `PreCommitError`.

        Returns whether one of them has read the table, so that another commit can change its answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class CommitProtocol:
    """By what a table is changed. There is one for a data table, its metadata table included.

    Attributes:
        storage: where the commit record, staged bytes, heartbeats (which reserve requested times) and claims are kept: the data table's folder.
        runtime: clock, ids, executor, timer and process.
        lock: the lock of all writers.
        options: what the writer chose.
        protections: all on, except in tests.
        pre_commit: validators of every commit of this handle, those of table services included.
    """

    storage: Storage
    runtime: Runtime
    lock: LockProvider
    options: WriteOptions
    protections: Protections = Protections()
    pre_commit: PreCommit | None = None


@dataclass(frozen=True, slots=True)
class TableContext:
    """A place with its protocol. ``companions`` are the other places under the same protocol: a metadata table, or its data table."""

    place: TablePlace
    protocol: CommitProtocol
    companions: tuple[TablePlace, ...] = ()

    @property
    def storage(self) -> Storage:
        """The place's storage: data files, markers, timeline and properties."""
        return self.place.storage

    @property
    def root(self) -> Storage:
        """The protocol's storage: commit record, staged bytes, heartbeats and claims."""
        return self.protocol.storage

    @property
    def config(self) -> TableConfig:
        """The place's properties."""
        return self.place.config

    @property
    def folder(self) -> TimelineFolder:
        """The place's timeline."""
        return self.place.folder

    @property
    def runtime(self) -> Runtime:
        """The protocol's clock, ids, executor, timer and process."""
        return self.protocol.runtime

    @property
    def lock(self) -> LockProvider:
        """The protocol's lock."""
        return self.protocol.lock

    @property
    def options(self) -> WriteOptions:
        """The writer's options."""
        return self.protocol.options

    @property
    def protections(self) -> Protections:
        """The protocol's protections."""
        return self.protocol.protections

    @property
    def table(self) -> str:
        """The location, for messages."""
        return self.place.table

    @property
    def utc(self) -> bool:
        """Whether the timeline's times are in UTC."""
        return self.place.utc

    def now(self) -> str:
        """The clock's time as an instant time."""
        return format_time(self.runtime.instant_ms(), utc=self.utc)

    def writer(self) -> dict[str, str]:
        """Who writes, as entries of the extra metadata; empty if the option ``pyhudi.commit.writer`` is off."""
        known = self.runtime.writer() if self.options.names_writer else {}
        return {WRITER_KEY + name: text for name, text in known.items()}

    def at(self, companion: TablePlace) -> TableContext:
        """The context of one of the companions; this place is a companion there."""
        others = tuple(place for place in self.companions if place is not companion)
        return replace(self, place=companion, companions=(self.place, *others))

    def with_lock(self, lock: LockProvider) -> TableContext:
        """The same table with another lock."""
        return replace(self, protocol=replace(self.protocol, lock=lock))

    def on(self, storage: Storage, folder: TimelineFolder) -> TableContext:
        """The same data table, seen through another storage (one that reads only, or that counts calls)."""
        place = replace(self.place, storage=storage, folder=folder)
        return replace(self, place=place, protocol=replace(self.protocol, storage=storage))
