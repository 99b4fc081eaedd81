"""Compare an existing table with the settings of its asset or task.

With other settings, rows would get other keys, or other versions of rows would win.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyhudi_core.orchestration.errors import TableMismatchError
from pyhudi_core.orchestration.settings import TableSettings, names

if TYPE_CHECKING:
    from pyhudi_core.model.properties import TableConfig
    from pyhudi_core.table import HudiTable

_BY_VALUE = "folders named by the values of the columns"
_PLAIN_GENERATORS = ("SIMPLE", "COMPLEX", "CUSTOM", "NON_PARTITION")


def refuse_mismatch(table: HudiTable, settings: TableSettings, owner: str = "asset") -> None:
    """Raise `TableMismatchError` if the table's record key, partition columns, ordering, type or key generator differ from the settings.

    An omitted setting accepts the table as it is. ``owner``: the word for the owner of the settings.
    """
    if lines := described_differences(table, settings, owner):
        raise TableMismatchError(
            f"The existing table differs from the settings of its {owner}. {lines}",
            table=table.location,
            hint=f"Change the {owner} to the table's settings. For other settings, {_other_table(table)}.",
        )


def _other_table(table: HudiTable) -> str:
    """Return the way to other settings: a table without a commit may go, because it has no rows."""
    if table.timeline.commits:
        return "write the rows to a new table (table='...')"
    return f"delete the table, which has no commit: pyhudi drop {table.location}"


def described_differences(table: HudiTable, settings: TableSettings, owner: str = "asset") -> str:
    """Return the differences as a sentence; empty if there are none."""
    found = differences(table, settings)
    return "; ".join(f"{what}: the {owner} has {own}, the table has {has or 'none'}" for what, own, has in found)


def differences(table: HudiTable, settings: TableSettings) -> Iterator[tuple[str, str, str]]:
    """Yield the differences: the name of the setting, its value in the settings, its value in the table."""
    config = table.config
    compared = (
        ("record key", ", ".join(settings.record_key), ", ".join(config.record_key_fields)),
        ("partition columns", ", ".join(settings.partition_by), ", ".join(config.partition_fields)),
        ("ordering", ", ".join(names(settings.ordering)), ", ".join(config.ordering_fields)),
        ("table type", settings.given_kind, config.table_type.value.lower()),
        ("key generator", settings.partition_by and _BY_VALUE, _key_generator(config)),
    )
    return ((what, own, has) for what, own, has in compared if own and own != has)


def _key_generator(config: TableConfig) -> str:
    """Return `_BY_VALUE` if a row's folder is the plain value of its partition columns, as partitions of an asset or a task need; otherwise the
    generator.
    """
    plain = config.keygenerator_type.value in _PLAIN_GENERATORS and set(config.partition_types) <= {"SIMPLE"}
    return _BY_VALUE if plain else f"{config.keygenerator_type.value} ({', '.join(config.partition_types)})"
