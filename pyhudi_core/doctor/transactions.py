"""Examine the transactions over several tables that the commits name: whether the other tables have their parts, and which decisions are left."""

from __future__ import annotations

from collections import defaultdict

from pyhudi_core.doctor.examination import Examination, describe
from pyhudi_core.doctor.kinds import Area, FindingKind
from pyhudi_core.errors import HudiError
from pyhudi_core.model.instant import Action
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.transaction import group, layout

_AREA = Area.COMMIT_RECORD


def examine(exam: Examination) -> None:
    """Report parts that other tables have lost, and decisions that were not removed."""
    for info in exam.below(_AREA, f"{layout.GROUPS}/"):
        what = "The decision of a transaction over several tables, which is running or was interrupted"
        exam.add(FindingKind.DECISION_LEFT, what, info.path)
    if exam.context is None:
        return
    for location, commits in sorted(_others(exam, exam.context).items()):
        try:
            _examine_table(exam, exam.context, location, commits)
        except HudiError as error:
            exam.not_examined(_AREA, f"A table of its transactions cannot be read: {describe(error)}"[:300], location)


def _others(exam: Examination, context: TableContext) -> dict[str, dict[str, str]]:
    """Return for each other table the requested times of its parts, each with the time of our own part. A copied table belongs to no transaction."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for instant, commit in exam.commits.items():
        tables = group.tables_of(commit.extra.get(group.TRANSACTION_KEY, ""))
        if tables.pop(context.table, None) == instant.requested_time:
            for location, time in tables.items():
                found[location][time] = instant.requested_time
    return found


def _examine_table(exam: Examination, context: TableContext, location: str, commits: dict[str, str]) -> None:
    place = group.table_of(context, location)
    if place is None:
        return  # somebody dropped it
    timeline = place.folder.load()
    for time, own in sorted(commits.items()):
        known = timeline.find(time) is not None or place.folder.archived(timeline, time) is not None
        if not known and group.fate_of(context, group.GroupPart(location, time, Action.COMMIT)) is group.PartFate.GONE:
            what = f"The commit is part of a transaction, and {location} has no commit {time}"
            exam.add(FindingKind.TRANSACTION_TORN, what, location, own)
