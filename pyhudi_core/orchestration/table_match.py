"""Compares an existing table with the settings of its asset. With a difference, rows would get another key, or another version of a row would
win."""

from __future__ import annotations

from collections.abc import Iterator

import pyhudi as hudi
from pyhudi_core.orchestration.errors import TableMismatchError
from pyhudi_core.orchestration.settings import TableSettings, names

_BY_VALUE = "folders named by the values of the columns"
_PLAIN_GENERATORS = ("SIMPLE", "COMPLEX", "CUSTOM", "NON_PARTITION")


def refuse_mismatch(table: hudi.HudiTable, settings: TableSettings) -> None:
    """Raise `TableMismatchError` if the table has another record key, partition columns, ordering, type or key generator than its asset."""
    found = list(differences(table, settings))
    if found:
        lines = "; ".join(
            f"{what}: the asset has {asset or 'none'}, the table has {has or 'none'}" for what, asset, has in found
        )
        raise TableMismatchError(
            f"The existing table differs from the settings of its asset. {lines}",
            table=table.location,
            hint="Change the asset to the table's settings. For other settings, write the rows to a new table (table='...').",
        )


def differences(table: hudi.HudiTable, settings: TableSettings) -> Iterator[tuple[str, str, str]]:
    """The differences: the name of the setting, its value in the asset, its value in the table."""
    config = table.config
    compared = (
        ("record key", ", ".join(settings.record_key), ", ".join(config.record_key_fields)),
        ("partition columns", ", ".join(settings.partition_by), ", ".join(config.partition_fields)),
        ("ordering", ", ".join(names(settings.ordering)), ", ".join(config.ordering_fields)),
        ("table type", settings.kind, config.table_type.value.lower()),
        ("key generator", _BY_VALUE, _key_generator(config)),
    )
    return ((what, asset, has) for what, asset, has in compared if asset != has)


def _key_generator(config: hudi.TableConfig) -> str:
    """`_BY_VALUE` if a row's folder is the plain value of its partition columns, as an asset's partitions need; else the generator."""
    plain = config.keygenerator_type.value in _PLAIN_GENERATORS and set(config.partition_types) <= {"SIMPLE"}
    return _BY_VALUE if plain else f"{config.keygenerator_type.value} ({', '.join(config.partition_types)})"
