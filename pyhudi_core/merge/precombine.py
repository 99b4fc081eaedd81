"""The merge law of tables up to version 6: that of release 0.15, which wrote them (docs/spec-deviations.md has what releases 1.x answer).

Entries of logs are reduced by ``preCombine`` of the payload class, and what remains meets the base row by ``combineAndGetUpdateValue``:
- between entries, the older one stays if its ordering value is strictly higher. A delete of a delete block gives way to every later entry, and
wins over
  an earlier row unless that row's ordering value is strictly higher, or is of another Java class;
- over the base row, a delete of a delete block always wins. A row of `OverwriteWithLatestAvroPayload`, the default of 0.x, always wins; one of
  `DefaultHoodieRecordPayload` wins unless the base row's ordering value is strictly higher;
- `OverwriteNonDefaultsWithLatestAvroPayload` fills in missing values over the base row only, `PartialUpdateAvroPayload` also between entries.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.merge.law import Mask, MergeLaw, PairMerger, Versions, by_ordering
from pyhudi_core.merge.payloads import PAYLOADS, NonDefaultsPayload, PartialUpdatePayload
from pyhudi_core.model.merge_mode import LAW_OF_LATER, OLDER_LAW
from pyhudi_core.model.properties import MergeMode, TableConfig


@dataclass(frozen=True, slots=True)
class PrecombineLaw(MergeLaw):
    """The law of a table up to version 6. ``over_base``: ordering values also decide over base rows."""

    over_base: bool = False

    @property
    def merger_in_logs(self) -> PairMerger | None:
        return None if isinstance(self.merger, NonDefaultsPayload) else self.merger

    def newer_wins(
        self, newer: Versions, older: Versions, *, in_logs: bool = False, mixed: Mask | bool = False
    ) -> Mask:
        if not newer.orderings.num_columns or not (in_logs or self.over_base):
            return np.ones(len(newer), bool)
        wins = by_ordering(newer, older)
        if in_logs:
            return wins | newer.outright | (older.deleted & older.listed)
        return wins | (newer.deleted & newer.listed)


def precombine_law(config: TableConfig, ordering: tuple[str, ...], merger: PairMerger | None) -> PrecombineLaw:
    """Return the law of a table up to version 6. Raises `UnsupportedTableError` for a payload class whose ``preCombine`` is not known here."""
    if config.payload_class in PAYLOADS and not isinstance(merger, NonDefaultsPayload | PartialUpdatePayload | None):
        raise UnsupportedTableError(
            f"The logs of the table are merged by {config.payload_class} as in release 0.15, which is not known here",
            hint=f'Read it as Hudi 1.x does: options={{"{OLDER_LAW}": "{LAW_OF_LATER}"}}. Or compact it with Hudi 0.15 and read it with'
            ' mode="read_optimized".',
        )
    return PrecombineLaw(ordering, merger, config.merge_mode is MergeMode.EVENT_TIME_ORDERING)
