"""Merge layers of the archived timeline: many small files of one layer become one file of the next (specification, "LSM
Timeline", compaction).

As in Hudi, if a layer has a full batch of files, its oldest files are merged, unless they are too large together; then the next layer is checked.
Hudi merges up to 1 GB; this package stops earlier, because it merges in memory. The merged files stay for some time, for readers of the previous
state; later readers use the newest state.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyhudi_core.formats.history_file import HistoryRow
from pyhudi_core.formats.history_manifest import LAST_LAYER, HistoryFile
from pyhudi_core.timeline.history import HistoryState
from pyhudi_core.timeline.history_writing import HistoryWriter

MAX_MERGED_BYTES = 64 << 20


def next_merge(files: Sequence[HistoryFile], batch: int) -> tuple[HistoryFile, ...]:
    """Return the files to merge: the oldest of the lowest layer with a full batch; empty if no layer has one."""
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
    """Merge until no layer has a full batch; return the number of merges. Stops if another process changes the history meanwhile."""
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
    }  # a row in two files is equal in both
    return [rows[key] for key in sorted(rows)]
