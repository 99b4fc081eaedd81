"""The merge law of tables up to version 6: the law of release 0.15, which wrote such tables. For releases 1.x see docs/spec-deviations.md.

First, the entries of logs are reduced by ``preCombine`` of the payload class:

- Of two entries, the older entry wins if its ordering value is strictly higher.
- An entry of a delete block loses against every later entry. It wins over an earlier row, unless the ordering value of the row is strictly higher or
has another Java class.

Then the result meets the base row by ``combineAndGetUpdateValue``:

- An entry of a delete block always wins over the base row.
- A row of `OverwriteWithLatestAvroPayload`, the default of 0.x, always wins. A row of `DefaultHoodieRecordPayload` wins unless the base row's
  ordering value is strictly higher.
- `OverwriteNonDefaultsWithLatestAvroPayload` fills in missing values only over the base row; `PartialUpdateAvroPayload` also does so between entries.
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
