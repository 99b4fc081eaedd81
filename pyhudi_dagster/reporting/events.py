"""The metadata entries of a step's own commit, and Dagster events for any other commit, including Hudi's.

A commit to many partitions makes one event for each partition. Each event has the rows, files and bytes of its partition, so sums over the events are
the commit's totals. The other numbers (size of the table, durations) are the same in each event, so that every plot has a dot for each event. Tables
and charts are in the last event, because Dagster's overview shows the last event.

The overview takes the row count and the storage from the newest materialization, or, if the materialization does not have them, from the newest
observation. So only materializations have the row count and the storage under Dagster's names, and the overview never shows two states.

The table's size is the size in an earlier event plus the changes of the commits since then (`HudiTable.size`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

import pyhudi as hudi
from pyhudi import WriteStat
from pyhudi.errors import HudiError, TableError
from pyhudi_core.orchestration import past_commits
from pyhudi_core.orchestration.partition_values import Value, value_of_path
from pyhudi_dagster.lake.info import HudiAssetInfo
from pyhudi_dagster.partitions.asset_partitions import HudiPartitions
from pyhudi_dagster.reporting import metadata
from pyhudi_dagster.steps.writer import CompletedCommit
from pyhudi_dagster.timeline.reported_commits import Reported

_log = logging.getLogger(__name__)
_EVENTS_READ = 20
_DATA_ACTIONS = frozenset({hudi.Action.COMMIT, hudi.Action.DELTACOMMIT, hudi.Action.REPLACECOMMIT})
_NULL = "__HIVE_DEFAULT_PARTITION__"
Entries = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CommitEntries:
    """The entries for a commit: for the complete asset, or for each partition key."""

    entries: Entries = field(default_factory=dict)
    by_partition: Mapping[str, Entries] = field(default_factory=dict)


def report(
    info: HudiAssetInfo, written: CompletedCommit, keys: Sequence[str] = (), known: hudi.TableSize | None = None
) -> CommitEntries:
    """Return the entries for a commit of this step, for the partition keys of its run. ``known``: the table's size in an earlier event."""
    return _report(_Described(info, written, known), keys)


def _report(described: _Described, keys: Sequence[str]) -> CommitEntries:
    info, written = described.info, described.written
    if info.partitions is None or not keys:
        return CommitEntries(described.last())
    shares = shares_of(info.partitions, keys, written)
    by_partition = {key: described.plain(shares[key]) for key in keys}
    # Dagster stores the events in the order of the keys, so this event is the newest of the run.
    by_partition[keys[-1]] = described.last(shares[keys[-1]])
    return CommitEntries(by_partition=by_partition)


def late_entries(
    info: HudiAssetInfo, written: CompletedCommit, keys: Sequence[str], known: hudi.TableSize | None = None
) -> dict[str, Entries]:
    """Return the entries for partitions outside the run that the commit also changed."""
    if info.partitions is None:
        return {}
    described = _Described(info, written, known)
    shares = shares_of(info.partitions, keys, written)
    return {key: {**described.plain(share), "hudi/late_data": True} for key, share in shares.items()}


def commit_event(
    table: hudi.HudiTable,
    commit: hudi.Instant | hudi.Commit | str,
    info: HudiAssetInfo,
    known: hudi.TableSize | None = None,
) -> dg.AssetMaterialization | dg.AssetObservation:
    """Return one event for a commit of any writer, including Hudi: a materialization for rows, an observation for table services and empty commits.

    Args:
        table: the commit's table.
        commit: a completed instant of any action, the result of a write, or a requested time.
        info: the asset of the table.
        known: the table's size in an earlier event (`known_size`), the start value for the new size.

    Raises `TableError` if the timeline has no such completed instant.
    """
    return event_of(table, past_commit(table, _completed(table, commit)), info, known)


def commit_events(
    table: hudi.HudiTable,
    commit: hudi.Instant | hudi.Commit | str,
    info: HudiAssetInfo,
    known: hudi.TableSize | None = None,
) -> list[dg.AssetMaterialization | dg.AssetObservation]:
    """Return events like the event of `commit_event`, one for each partition key whose rows the commit changed.

    The last event has the facts about the complete table.
    """
    return events_of(table, past_commit(table, _completed(table, commit)), info, known)


def past_commit(table: hudi.HudiTable, instant: hudi.Instant) -> past_commits.PastCommit:
    """Return a completed instant of the active timeline, of any action. Only commits have metadata."""
    is_commit = instant.action in _DATA_ACTIONS
    return past_commits.PastCommit(instant, table.commit_metadata(instant) if is_commit else hudi.CommitMetadata(None))


def event_of(
    table: hudi.HudiTable, past: past_commits.PastCommit, info: HudiAssetInfo, known: hudi.TableSize | None = None
) -> dg.AssetMaterialization | dg.AssetObservation:
    """Return one event for a completed instant of any action, active or archived."""
    if past.instant.action not in _DATA_ACTIONS or past.metadata.is_empty:
        return _observation(info, table, past, {})
    described = _Described(info, CompletedCommit(table, past, adopted=True), known, is_own=False)
    if not past.metadata.changes_rows:
        return _observation(info, table, past, described.of_service())
    return dg.AssetMaterialization(asset_key=info.key, metadata=described.last(), tags=data_tags(past))


def events_of(
    table: hudi.HudiTable, past: past_commits.PastCommit, info: HudiAssetInfo, known: hudi.TableSize | None = None
) -> list[dg.AssetMaterialization | dg.AssetObservation]:
    """Return events like the event of `event_of`, one for each partition key whose rows the commit changed."""
    event, keys = event_of(table, past, info, known), keys_of(past, info)
    if not keys or isinstance(event, dg.AssetObservation):
        return [event]
    described = _Described(info, CompletedCommit(table, past, adopted=True), known, is_own=False)
    return [
        dg.AssetMaterialization(asset_key=info.key, partition=key, metadata=entries, tags=data_tags(past))
        for key, entries in _report(described, keys).by_partition.items()
    ]


def is_reported(past: past_commits.PastCommit, info: HudiAssetInfo, reported: frozenset[Reported]) -> bool:
    """Say whether Dagster has all events of an instant."""
    keys = keys_of(past, info) if past.metadata.changes_rows else []
    return {(past.completion_time, key) for key in keys or (None,)} <= reported


def missing_events(
    table: hudi.HudiTable,
    past: past_commits.PastCommit,
    info: HudiAssetInfo,
    reported: frozenset[Reported],
    known: hudi.TableSize | None = None,
) -> Iterator[dg.AssetMaterialization | dg.AssetObservation]:
    """Yield the events of `events_of` that Dagster does not have."""
    if not is_reported(past, info, reported):
        found = events_of(table, past, info, known)
        yield from (event for event in found if (past.completion_time, event.partition) not in reported)


def keys_of(past: past_commits.PastCommit, info: HudiAssetInfo) -> list[str]:
    """Return the partition keys of the asset whose rows the commit changed, sorted; no keys for an asset without partitions."""
    if info.partitions is None:
        return []
    values = {value_of_path(path, info.partitions.columns) for path in past.metadata.partitions}
    return sorted({key for key in map(info.partitions.key_of, values) if key is not None})


def data_tags(commit: past_commits.PastCommit) -> dict[str, str]:
    """Return the tags that identify the commit of an event, and its data version."""
    return {**event_tags(commit), "dagster/data_version": commit.completion_time}


def event_tags(commit: past_commits.PastCommit) -> dict[str, str]:
    """Return the tags that identify the commit of an event."""
    return {"hudi/instant": commit.instant.requested_time, "hudi/completion": commit.completion_time}


def known_size(instance: dg.DagsterInstance, key: dg.AssetKey) -> hudi.TableSize | None:
    """Return the table's size in the newest event with a size."""
    for record in instance.fetch_materializations(key, limit=_EVENTS_READ).records:
        event = record.asset_materialization
        found = None if event is None else _size_in(event)
        if found is not None:
            return found
    return None


def _size_in(event: dg.AssetMaterialization) -> hudi.TableSize | None:
    tags = event.tags or {}
    counts = []
    for name in ("dagster/row_count", "dagster/size_bytes", "hudi/file_groups", "hudi/small_files"):
        count = event.metadata[name].value if name in event.metadata else None
        if not isinstance(count, int):
            return None
        counts.append(count)
    return hudi.TableSize(tags.get("hudi/instant", ""), tags.get("hudi/completion", ""), hudi.Size(*counts))


@dataclass(frozen=True, slots=True)
class Share:
    """The changes of a commit to some partitions, and the number of rows in these partitions after the commit (None: not requested or unknown)."""

    rows: Entries
    count: int | None = None

    @classmethod
    def of(cls, stats: Iterable[WriteStat], dropped: int = 0, count: int | None = None) -> Share:
        """Sum the write stats of the partitions, and the removed rows of dropped partitions."""
        return cls(metadata.row_entries(stats, dropped), count)

    def counted(self) -> Entries:
        return {} if self.count is None else {"dagster/partition_row_count": self.count}


def shares_of(partitions: HudiPartitions, keys: Sequence[str], written: CompletedCommit) -> dict[str, Share]:
    """Return the changes of a commit for each partition key."""
    stats: dict[Value, list[WriteStat]] = {}
    for stat in written.commit.metadata.stats:
        stats.setdefault(value_of_path(stat.partition, partitions.columns), []).append(stat)
    owned = {key: sorted(partitions.values_of_key(key)) for key in keys}
    rows = _rows_of(written, [value for values in owned.values() for value in values])
    dropped: dict[Value, int] = {}
    for path, count in past_commits.dropped_rows(written.table, written.commit).items():
        dropped[value_of_path(path, partitions.columns)] = count
    shares = {}
    for key, values in owned.items():
        counts = [rows.get(value) for value in values]
        known = [count for count in counts if count is not None]
        mine = (stat for value in values for stat in stats.get(value, []))
        gone = sum(dropped.get(value, 0) for value in values)
        shares[key] = Share.of(mine, gone, sum(known) if len(known) == len(counts) else None)
    return shares


def _rows_of(written: CompletedCommit, values: Sequence[Value]) -> dict[Value, int | None]:
    """Return the number of rows in each partition after the commit.

    The numbers are None for a merge-on-read table: after most commits only a read of the logs would show them, and a plot with only some of the dots
    misleads.
    """
    if written.table.config.table_type.value.lower() == "merge_on_read":
        return {}
    named: dict[Value, tuple[str | None, ...]] = {
        value: tuple(None if text == _NULL else text for text in value) for value in values
    }
    try:
        sizes = written.table.partition_sizes(list(named.values()), as_of=written.commit.instant)
    except HudiError as error:  # the commit is complete, so missing figures must not fail its step
        _log.warning("the rows of the partitions of %s are not known: %s", written.table.location, error)
        return {}
    return {value: sizes[name].rows for value, name in named.items()}


@dataclass(slots=True)
class _Described:
    """The entries of one commit, in the order of the UI."""

    info: HudiAssetInfo
    written: CompletedCommit
    known: hudi.TableSize | None = None
    is_own: bool = True
    measured: list[hudi.Size | None] = field(default_factory=list)

    def plain(self, share: Share) -> Entries:
        """Return the entries of one partition among several."""
        written, size = self.written, self._size()
        return {
            **share.counted(),
            **metadata.size_entries(size),
            **metadata.operation_entry(written.commit),
            **share.rows,
            **metadata.name_entries(written.table, written.commit),
            **({"hudi/adopted": True} if self.is_own and written.adopted else {}),
            **(metadata.run_entry(written.commit) if written.adopted else {}),
            **metadata.layout_entries(size),
            **metadata.duration_entries(written),
        }

    def last(self, share: Share | None = None) -> Entries:
        """Return the entries of the last event of a commit, which is about the changes ``share``. Without ``share``, return the entries of the only
        event.
        """
        written = self.written
        dropped = past_commits.dropped_rows(written.table, written.commit)
        share = share or Share.of(written.commit.metadata.stats, sum(dropped.values()))
        return {
            **self.plain(share),
            **metadata.input_entries(written),
            **metadata.wide_entries(written.table, written.commit, dropped),
            **metadata.place_entries(self.info, written),
        }

    def of_service(self) -> Entries:
        """Return the entries of a table service that wrote files: a service changes files but not rows."""
        size, stats = self._size(), self.written.commit.metadata.stats
        rows = metadata.row_entries(stats)
        wrote = {name: rows[name] for name in ("hudi/files_written", "hudi/bytes_written")}
        return {**metadata.size_entries(size, "hudi"), **wrote, **metadata.layout_entries(size)}

    def _size(self) -> hudi.Size | None:
        """Return the size of the table after the commit. The size is measured once for all events of the commit."""
        if not self.measured:
            self.measured.append(self._measure())
        return self.measured[0]

    def _measure(self) -> hudi.Size | None:
        table, instant = self.written.table, self.written.commit.instant
        try:
            return table.size(as_of=instant, known=self.known).size
        except HudiError as error:  # the commit is complete, so missing figures must not fail its step
            _log.warning("the size of %s is not known: %s", table.location, error)
            return None


def _observation(
    info: HudiAssetInfo, table: hudi.HudiTable, commit: past_commits.PastCommit, wrote: Entries
) -> dg.AssetObservation:
    entries = {
        **metadata.operation_entry(commit),
        **wrote,
        **metadata.name_entries(table, commit),
        **metadata.total_entry(commit),
        **metadata.run_entry(commit),
        "dagster/uri": table.location,
        "dagster/table_name": info.table,
    }
    if "hudi/completion_time" in entries:
        entries["dagster/last_updated_timestamp"] = entries["hudi/completion_time"]
    return dg.AssetObservation(asset_key=info.key, metadata=entries, tags=event_tags(commit))


def _completed(table: hudi.HudiTable, commit: hudi.Instant | hudi.Commit | str) -> hudi.Instant:
    if isinstance(commit, hudi.Instant):
        if commit.completion_time is not None:
            return commit
        commit = commit.requested_time
    time = commit if isinstance(commit, str) else commit.instant
    found = table.timeline.completed.find(time)
    if found is None:
        raise TableError(
            "The active timeline has no completed instant with this requested time",
            table=table.location,
            instant=time,
            hint="Give a completed instant, such as one of table.timeline.completed.",
        )
    return found
