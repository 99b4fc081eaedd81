"""Parse and check the options of ``format("pyhudi")``: of batch reads, streams and writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyhudi_core.errors import InvalidOptionError, UnknownOptionError
from pyhudi_core.model.masking import concealed
from pyhudi_core.opening import open_table
from pyhudi_core.read.changes import ChangeFeed
from pyhudi_core.read.scan import Scan
from pyhudi_core.spark.session_zone import SessionZone, ZonedCondition
from pyhudi_core.table import HudiTable

SNAPSHOT, READ_OPTIMIZED, INCREMENTAL, CHANGES = "snapshot", "read_optimized", "incremental", "changes"
EARLIEST, LATEST = "earliest", "latest"
CONDITION_ZONE = "pyhudi.condition.timezone"
_STORAGE = "storage."
_TABLE = ("hoodie.", "pyhudi.")
_OF_READS = {
    SNAPSHOT: frozenset({"as_of"}),
    READ_OPTIMIZED: frozenset({"as_of", "refuse_pending_deletes"}),
    INCREMENTAL: frozenset({"after", "until"}),
    CHANGES: frozenset({"after", "until"}),
}
_OF_STREAMS = frozenset({"starting", "max_commits_per_batch", "max_bytes_per_batch"})
_OF_BATCHES = frozenset({"push_filters"})
_OF_WRITES = frozenset({"path", "operation", "max_bytes_per_write"})
_OF_STREAM_WRITES = frozenset({"stream", "replaces", "checkpointlocation", "queryname"})
OPERATIONS = ("upsert", "insert", "bulk_insert", "delete")
"""The operations of the data source; the first one is the default."""
_HUDIS = {
    "hoodie.datasource.write.operation": "operation",
    "hoodie.datasource.query.type": "mode",
    "as.of.instant": "as_of",
}
"""Hudi's names for options of this data source."""
_ALWAYS = frozenset({"path", "mode", "columns", "where"})
_KNOWN = _ALWAYS.union(_OF_STREAMS, _OF_BATCHES, _OF_WRITES, _OF_STREAM_WRITES, *_OF_READS.values())


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of one read or write.

    Attributes:
        path: the table's location.
        mode: snapshot, read_optimized, incremental or changes; empty if it was not given.
        columns: the columns, or None for all.
        where: a condition as SQL text.
        as_of: a time, an instant's requested time or a snapshot token.
        after, until: a range of completion times; ``after`` is exclusive.
        refuse_pending_deletes: whether read-optimized reads are refused while deletes are pending.
        push_filters: whether Spark may push filters down; only correct for a DataFrame that is used in one query.
        starting: where a new stream begins: earliest, latest or a completion time (exclusive).
        max_commits_per_batch, max_bytes_per_batch: limits for batches of a stream; None for no limit.
        operation: the operation of a write: upsert (the default), insert, bulk_insert or delete.
        stream: the name of a writing stream; ``replaces`` names the older query that the stream's query replaces.
        checkpoint: the checkpoint location of a writing stream; empty if Spark does not give it.
        max_bytes_per_write: the maximum bytes of rows in one commit.
        storage_options, table_options: options for `open_table`.
        given: names of the given options.
        zone: the session's time zone, if the condition is read in it; else None.
    """

    path: str
    mode: str = ""
    columns: tuple[str, ...] | None = None
    where: str | None = None
    as_of: str | None = None
    after: str | None = None
    until: str | None = None
    refuse_pending_deletes: bool = False
    push_filters: bool = False
    starting: str = EARLIEST
    max_commits_per_batch: int | None = None
    max_bytes_per_batch: int | None = None
    operation: str = ""
    stream: str = ""
    replaces: str = ""
    checkpoint: str = ""
    max_bytes_per_write: int | None = None
    storage_options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    table_options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    given: frozenset[str] = frozenset()
    zone: SessionZone | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Settings:
        """Parse Spark's options; names in any case.

        Raises:
            UnknownOptionError: an option does not exist.
            InvalidOptionError: a value is not allowed.
        """
        options = concealed(options)
        named = {name.lower(): value for name, value in options.items()}
        for name in _HUDIS.keys() & named.keys():
            named.setdefault(_HUDIS[name], named.pop(name))
        own = {name: value for name, value in named.items() if not name.startswith((_STORAGE, *_TABLE))}
        _refuse_unknown(own)
        if not own.get("path"):
            raise InvalidOptionError(
                "The table's location is missing",
                hint='Give it: load("/lake/orders") or option("path", "/lake/orders"). Spark passes no options of a table in its catalog: '
                "remove such an entry with DROP TABLE, and make a temporary view.",
            )
        return cls(
            path=own["path"],
            mode=_one_of(own, "mode", tuple(_OF_READS)),
            columns=_columns(own.get("columns")),
            where=own.get("where"),
            as_of=own.get("as_of"),
            after=own.get("after"),
            until=own.get("until"),
            refuse_pending_deletes=_one_of(own, "refuse_pending_deletes", ("true", "false")) == "true",
            push_filters=_one_of(own, "push_filters", ("true", "false")) == "true",
            starting=_starting(own),
            max_commits_per_batch=_count(own, "max_commits_per_batch"),
            max_bytes_per_batch=_count(own, "max_bytes_per_batch"),
            operation=_one_of(own, "operation", OPERATIONS) or OPERATIONS[0],
            stream=own.get("stream", ""),
            replaces=own.get("replaces", ""),
            checkpoint=own.get("checkpointlocation", ""),
            max_bytes_per_write=_count(own, "max_bytes_per_write"),
            storage_options=tuple((k.removeprefix(_STORAGE), v) for k, v in named.items() if k.startswith(_STORAGE)),
            table_options=tuple((k, v) for k, v in named.items() if k.startswith(_TABLE)),
            given=frozenset(own),
        )

    def in_zone(self, zone: SessionZone | None) -> Settings:
        """Return the settings with the condition in the zone of a session, unless an option has chosen one."""
        if zone is None or self.where is None or CONDITION_ZONE in dict(self.table_options):
            return self
        return replace(self, zone=zone, table_options=(*self.table_options, (CONDITION_ZONE, zone.name)))

    def zoned_condition(self, read: Scan | ChangeFeed) -> ZonedCondition | None:
        """Return the condition that the tasks of a read must check; None without such a condition."""
        if self.zone is None or self.where is None:
            return None
        schema = read.rows.schema if isinstance(read, Scan) else read.reader.schema
        return ZonedCondition(self.where, schema, self.zone)

    def of_read(self) -> str:
        """Return the mode of a batch read. Raises `InvalidOptionError` if an option does not fit the mode."""
        mode = self.mode or (INCREMENTAL if {"after", "until"} & self.given else SNAPSHOT)
        self._refuse(self.given - _ALWAYS - _OF_BATCHES - _OF_READS[mode], f"a read with mode={mode}")
        return mode

    def of_stream(self) -> str:
        """Return the mode of a stream: incremental or changes. Raises `InvalidOptionError` as `of_read` does."""
        mode = self.mode or INCREMENTAL
        if mode not in (INCREMENTAL, CHANGES):
            self._refuse(frozenset({"mode"}), "a stream")
        self._refuse(self.given - _ALWAYS - _OF_STREAMS, "a stream")
        return mode

    def of_write(self, *, stream: bool = False) -> str:
        """Return the operation of a write. Raises `InvalidOptionError` for options of reads, and for a stream without a name."""
        allowed = _OF_WRITES | (_OF_STREAM_WRITES if stream else frozenset())
        unfit = sorted(self.given - allowed)
        if unfit:
            raise InvalidOptionError(
                f"The option {unfit[0]!r} cannot be used for a write",
                table=self.path,
                hint=f"Known: {', '.join(sorted(allowed))}; storage.* for the storage; hoodie.* and pyhudi.* for the table.",
            )
        if stream and not self.stream.strip():
            raise InvalidOptionError(
                "A stream that writes needs a name, by which its batches are found in the table",
                table=self.path,
                hint='Give option("stream", "orders"); another stream into the table needs another name.',
            )
        return self.operation

    def open(self) -> HudiTable:
        """Open the table. Raises as `open_table`."""
        return open_table(self.path, dict(self.storage_options), dict(self.table_options))

    def _refuse(self, names: frozenset[str], what: str) -> None:
        if names:
            raise InvalidOptionError(
                f"The option {', '.join(map(repr, sorted(names)))} cannot be used for {what}",
                table=self.path,
                hint="snapshot: as_of; read_optimized: as_of, refuse_pending_deletes; incremental and changes: after, until; all of them "
                "push_filters; streams are incremental or changes: starting, max_commits_per_batch, max_bytes_per_batch.",
            )


def _refuse_unknown(own: Mapping[str, str]) -> None:
    unknown = sorted(own.keys() - _KNOWN)
    if unknown:
        raise UnknownOptionError(
            f"The option {unknown[0]!r} is unknown",
            table=own.get("path"),
            hint=f"Known: {', '.join(sorted(_KNOWN))}; storage.* for the storage; hoodie.* and pyhudi.* for the table.",
        )


def _one_of(own: Mapping[str, str], name: str, words: tuple[str, ...]) -> str:
    word = own.get(name, "").lower()
    if name in own and word not in words:
        raise _invalid(own, name, f"Use {', '.join(words[:-1])} or {words[-1]}.")
    return word


def _starting(own: Mapping[str, str]) -> str:
    given = own.get("starting", EARLIEST)
    word = given.lower()
    return word if word in (EARLIEST, LATEST) else given


def _count(own: Mapping[str, str], name: str) -> int | None:
    text = own.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise _invalid(own, name, "Use an integer of 1 or more.")
    return int(text)


def _columns(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    if not text.lstrip().startswith("["):
        return tuple(name.strip() for name in text.split(","))
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _invalid({"columns": text}, "columns", 'Use id, price or, for names with commas, ["id", "a,b"].')
    return tuple(names)


def _invalid(own: Mapping[str, str], name: str, hint: str) -> InvalidOptionError:
    return InvalidOptionError(f"{name}={own[name]!r} is not a valid value", table=own.get("path"), hint=hint)
