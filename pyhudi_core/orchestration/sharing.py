"""Steps of many partitions that share a commit (`pyhudi_core.batches`), if the table has the option ``pyhudi.commit.batch``.

A shared commit records the written rows of each partition. This shows the result of a step if the step writes only to its own partitions, and no
other step writes to them. The condition is checked before the rows are stored for the shared commit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from pyhudi_core.batches import combined
from pyhudi_core.model.shared_commits import BATCHES_KEY
from pyhudi_core.orchestration.past_commits import PastCommit, commit_of

if TYPE_CHECKING:
    from pyhudi_core.table import HudiTable
    from pyhudi_core.write.handle import Write
    from pyhudi_core.write.result import Commit


def shared_upsert(
    table: HudiTable, write: Write, data: object, gate: Callable[[], object], fits: Callable[[frozenset[str]], bool]
) -> Commit | None:
    """Upsert rows in one commit with the rows of other steps, if the table has the option. Returns None if the rows need their own commit: then the
    write has checked them, and takes no other rows.

    Args:
        write: the begun write of an upsert, without rows.
        gate: called before the rows are stored, because another process may commit them.
        fits: whether rows of these partitions (paths) may share a commit.

    Raises as `HudiTable.upsert`.
    """
    if not write.context.options.shares_commits or table._opened.pre_commit is not None:
        return None
    return combined.upsert_with_others(write, table._upserting, data, gate, fits)


def is_shared(commit: PastCommit) -> bool:
    """Say whether several writers share a commit."""
    return BATCHES_KEY in commit.extra


def own_part(table: HudiTable, commit: Commit) -> PastCommit:
    """Return the part of one writer in a commit: with the extra metadata of this writer."""
    found = commit_of(table, commit.instant)
    return replace(found, metadata=replace(found.metadata, extra={**found.extra, **commit.extra_metadata}))
