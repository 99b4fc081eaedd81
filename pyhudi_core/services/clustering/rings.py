"""Compute the new metadata of consistent hashing after a clustering of buckets: one new file for each partition, published with the commit."""

from __future__ import annotations

from pyhudi_core.errors import CommitAbortedError, CorruptionError, ObjectNotFoundError
from pyhudi_core.index.hash_ranges import ranges_of
from pyhudi_core.index.hashing_metadata import ChildNode, HashingMetadata, path_of
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.clustering.clustering_plan import ClusteringWork
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.transaction.commit import Attachment

Rings = dict[str, HashingMetadata]


def rings_after(context: TableContext, snapshot: Snapshot, work: ClusteringWork, instant: str) -> Rings:
    """Return the metadata of each partition after the plan. Raises `CommitAbortedError` if the ranges have changed since the plan was made."""
    children: dict[str, list[ChildNode]] = {}
    for group in work.groups:
        children.setdefault(group.partition, []).extend(group.children)
    found: Rings = {}
    for partition, changes in children.items():
        ring = ranges_of(context, snapshot, partition)
        sequences = {group.sequence for group in work.groups if group.partition == partition}
        if ring is None or sequences != {ring.sequence}:
            raise _outdated(context, instant, f"the ranges of hashes of the partition {partition!r} have changed since")
        try:
            found[partition] = ring.changed(changes, instant)
        except ValueError as error:
            raise _outdated(context, instant, f"in the partition {partition!r}, {error}") from error
    return found


def attachments(context: TableContext, rings: Rings) -> tuple[Attachment, ...]:
    """Return the files that the commit publishes. An existing file of a dead execution of Hudi is kept if its content is the same.

    Raises `CorruptionError` if the content of such a file differs.
    """
    found: list[Attachment] = []
    for partition, ring in rings.items():
        path = path_of(partition, ring.instant)
        try:
            there = HashingMetadata.decode(context.storage.get(path), path)
        except ObjectNotFoundError:
            found.append(Attachment(path, ring.encode()))
            continue
        if (there.nodes, there.sequence) != (ring.nodes, ring.sequence):
            raise CorruptionError(
                "The metadata of consistent hashing that another execution of this clustering has left does not fit its plan",
                path=path,
                hint="Nothing was published. Remove the plan by table.clustering.cancel(instant), then delete the file.",
            )
    return tuple(found)


def _outdated(context: TableContext, instant: str, why: str) -> CommitAbortedError:
    return CommitAbortedError(
        f"The clustering cannot be executed: {why}",
        table=context.table,
        instant=instant,
        hint="Nothing was published. Remove the plan by table.clustering.cancel(instant) or `pyhudi cluster --cancel`, and plan again.",
    )
