"""Layers of the archived timeline: many small files of one layer become one of the next (specification, "LSM Timeline", compaction).

As in Hudi: a layer with a batch of files has its oldest ones merged, as long as they are not too large together, and then the layer above is
looked at. Hudi merges up to 1 GB; we stop earlier, because a merge is done in memory. A reader of a state before the merge finds the merged files
for a while; after that it looks at the newest state instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyhudi_core.formats.history_file import HistoryRow
from pyhudi_core.formats.history_manifest import LAST_LAYER, HistoryFile
from pyhudi_core.timeline.history import HistoryState
from pyhudi_core.timeline.history_writing import HistoryWriter

MAX_MERGED_BYTES = 64 << 20


def next_merge(files: Sequence[HistoryFile], batch: int) -> tuple[HistoryFile, ...]:
    """The files to merge: the oldest of the lowest layer that has a batch of them; empty when no layer has."""
    for layer in range(LAST_LAYER):
        members = sorted(file for file in files if file.layer == layer)
        if len(members) < batch:
            continue
        chosen: list[HistoryFile] = []
        for file in members[:batch]:
            if chosen and sum(known.size for known in chosen) + file.size > MAX_MERGED_BYTES:
                break
            chosen.append(file)
        if len(chosen) > 1:
            return tuple(chosen)
    return ()


def merge_layers(writer: HistoryWriter, batch: int) -> int:
    """Merge until no layer has a batch of files; returns the number of merges. Stops when somebody else changes the history meanwhile."""
    merges = 0
    while True:
        state = writer.history.state()
        chosen = next_merge(state.files, batch) if state.problem is None else ()
        if not chosen:
            return merges
        merged = writer.add(_merged(writer, state, chosen), state, chosen[0].layer + 1)
        rest = [file for file in state.files if file not in chosen]
        if not writer.decide(state, [*rest, merged]):
            writer.discard(merged)
            return merges
        merges += 1


def _merged(writer: HistoryWriter, state: HistoryState, chosen: Sequence[HistoryFile]) -> list[HistoryRow]:
    rows = {
        (row.requested_time, row.action): row for file in chosen for row in writer.history.rows(state, file)
    }  # a row that is in two files is the same in both
    return [rows[key] for key in sorted(rows)]
