"""Recover a table without ``.hoodie`` from the names and footers of its data files (``importing/recovery_plan.py``), and lost completed files of a
table from its commit record (``repairs/lost_commits.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyhudi_core.argument_types import refuses_wrong_types
from pyhudi_core.errors import InvalidOptionError, at_table
from pyhudi_core.importing import recovery_plan
from pyhudi_core.importing.recovery_plan import RecoveryPlan
from pyhudi_core.importing.recovery_questions import Answers
from pyhudi_core.model.masking import takes_options
from pyhudi_core.model.properties import TableType
from pyhudi_core.naming import set_module
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.opening import open_table, table_type_of
from pyhudi_core.repairs import lost_commits
from pyhudi_core.runtime.system import system_runtime
from pyhudi_core.storage.opening import open_storage
from pyhudi_core.storage.paths import Place
from pyhudi_core.table import HudiTable
from pyhudi_core.timeline import properties_file

Names = str | Sequence[str]


@set_module("pyhudi")
@takes_options
@refuses_wrong_types
def plan_recovery(
    location: Place,
    record_key: Names = (),
    ordering: Names | None = None,
    partition_by: Names | None = None,
    table_type: str | None = None,
    name: str | None = None,
    leave_out: Iterable[str] = (),
    storage_options: Mapping[str, str] | None = None,
    by_name: bool = False,
) -> RecoveryPlan:
    """Return what `recover` would rebuild, its questions, and the unknown facts. Changes nothing.

    Args:
        location: the folder, without ``.hoodie/hoodie.properties``.
        record_key: the key columns.
        ordering: the ordering columns; an empty list if there are none.
        partition_by: the partition columns, if the folders are not named ``column=value``.
        table_type: as in `create_table`; needed if there are no log files.
        name: the table's name; the default is the last part of the location.
        leave_out: instants, file ids or paths of files that do not belong to the table.
        by_name: every column of every file is found by its name. Use it if files differ in their columns, and no column was renamed, or dropped and
            added again.

    Raises `TableExistsError` if there are properties, or a timeline that the names contradict.
    """
    answers = _answers(record_key, ordering, partition_by, table_type, name, leave_out, by_name)
    storage = open_storage(location, storage_options)
    with at_table(storage.location):
        return recovery_plan.plan_recovery(storage, system_runtime().executor, answers)


def publish_lost_commits(
    location: Place, storage_options: Mapping[str, str] | None = None, *, only_plan: bool = False
) -> tuple[str, ...]:
    """Publish lost completed files of a table again, from its commit record, and return their paths. ``only_plan``: change nothing.

    Nothing is done at a location without the properties of a table. Raises `CorruptTimelineError` if a commit is lost that the record does not have.
    """
    storage = open_storage(location, storage_options)
    if storage.head(properties_file.PATH) is None:
        return ()
    opened = OpenedTable(storage, system_runtime(), {})
    with opened.verb() as context:
        return lost_commits.lost_commits(context) if only_plan else lost_commits.publish_again(context)


@set_module("pyhudi")
@takes_options
@refuses_wrong_types
def recover(
    location: Place,
    record_key: Names = (),
    ordering: Names | None = None,
    partition_by: Names | None = None,
    table_type: str | None = None,
    name: str | None = None,
    leave_out: Iterable[str] = (),
    storage_options: Mapping[str, str] | None = None,
    accept_unknown: bool = False,
    by_name: bool = False,
) -> HudiTable:
    """Rebuild the timeline and the properties; arguments as in `plan_recovery`.

    If the table has its properties, publish the lost completed files of the commit record again.

    Raises `TableExistsError` for a table that has lost nothing. Raises `InvalidOptionError`, and writes nothing, if questions are open; and without
    ``accept_unknown``, if the plan lists unknown facts, which may be wrong in the rebuilt table.
    """
    if publish_lost_commits(location, storage_options):
        return open_table(location, storage_options)
    plan = plan_recovery(
        location, record_key, ordering, partition_by, table_type, name, leave_out, storage_options, by_name
    )
    return recover_as_planned(location, plan, storage_options, accept_unknown)


@takes_options
def recover_as_planned(
    location: Place, plan: RecoveryPlan, storage_options: Mapping[str, str] | None, accept_unknown: bool
) -> HudiTable:
    """Rebuild exactly what a plan shows. Raises as `recover`."""
    storage = open_storage(location, storage_options)
    with at_table(storage.location):
        if plan and not accept_unknown:
            raise InvalidOptionError(
                f"Names and footers do not say {'; '.join(plan.unknown)}",
                hint="Look at plan_recovery, leave_out what does not belong to the table, and give accept_unknown=True. Nothing was changed.",
            )
        recovery_plan.recover(storage, plan)
    return open_table(location, storage_options)


def _answers(
    record_key: Names,
    ordering: Names | None,
    partition_by: Names | None,
    table_type: str | None,
    name: str | None,
    leave_out: Iterable[str],
    by_name: bool,
) -> Answers:
    kind: TableType | None = None if table_type is None else table_type_of(table_type)
    left_out = frozenset([leave_out] if isinstance(leave_out, str) else leave_out)
    return Answers(_names(record_key) or (), _names(ordering), _names(partition_by), kind, name, left_out, by_name)


def _names(given: Names | None) -> tuple[str, ...] | None:
    return None if given is None else (given,) if isinstance(given, str) else tuple(given)
