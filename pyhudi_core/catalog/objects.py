"""The objects of a catalog as values: tables and partitions. `Catalog` has the operations of each kind of catalog.

Hive Metastore and Glue hold the same objects. Their clients (`metastore`, `glue`) translate, and preserve unknown fields.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyhudi_core.errors import CatalogError
from pyhudi_core.storage.certificates import advice

OUTPUT_FORMAT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"
SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
EXTERNAL, MANAGED = "EXTERNAL_TABLE", "MANAGED_TABLE"
Values = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CatalogColumn:
    """A column: its name in lower case, its type as Hive writes it, and its description."""

    name: str
    type: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class CatalogPartition:
    """A partition: its values as text, its folder, and the input format of its files."""

    values: Values
    location: str
    input_format: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table of a catalog.

    Attributes:
        location: the folder of the Hudi table.
        input_format: Hive's input format, which makes the table read-optimized or real-time.
        parameters, serde_parameters: properties of the table, and of how its rows are read.
        managed: whether dropping the table in the catalog deletes the data.
        created: when the catalog made the object. A later object of the same name has another time.
        raw: the object as the catalog returned it; an alteration starts from it.
    """

    database: str
    name: str
    columns: tuple[CatalogColumn, ...]
    partition_keys: tuple[CatalogColumn, ...]
    location: str
    input_format: str
    parameters: Mapping[str, str]
    serde_parameters: Mapping[str, str]
    managed: bool = False
    created: str = ""
    raw: Any = field(default=None, repr=False, compare=False)

    @property
    def full_name(self) -> str:
        """Database and name."""
        return f"{self.database}.{self.name}"


class AlreadyThere(Exception):  # noqa: N818 (not an error: another process was faster)
    """Another process has created the table meanwhile."""


class ChangedMeanwhile(Exception):  # noqa: N818 (not an error: another process was faster)
    """Another process has changed the table, or created it again, after it was read."""


class Catalog(Protocol):
    """A catalog. Each request is bounded. Raises `CatalogError` if it cannot be reached, does not answer, or refuses."""

    @property
    def place(self) -> str:
        """The catalog's address, for messages."""
        ...

    def has_database(self, name: str) -> bool:
        """Say whether there is a database."""
        ...

    def folder_of(self, database: str) -> str:
        """Return the folder for new tables of a database; empty if the database has none."""
        ...

    def tables(self, database: str) -> Iterable[CatalogTable]:
        """Return all tables of an existing database, including the tables of other owners."""
        ...

    def create_database(self, name: str) -> None:
        """Create a database, if it does not exist."""
        ...

    def table(self, database: str, name: str) -> CatalogTable | None:
        """Return a table; None if there is none of this name."""
        ...

    def create(self, table: CatalogTable) -> None:
        """Create a table. Raises `AlreadyThere`."""
        ...

    def alter(self, table: CatalogTable, *, cascade: bool) -> None:
        """Change the table to this content. ``raw`` of the table is the object as it was read. ``cascade``: its partitions get the columns, too.

        Raises `ChangedMeanwhile`, and changes nothing, if the catalog can compare and the object has changed.
        """
        ...

    def remove(self, table: CatalogTable) -> None:
        """Remove a table from the catalog, if it exists. No data is deleted."""
        ...

    def partitions(self, table: CatalogTable, wanted: Collection[Values] | None) -> dict[Values, CatalogPartition]:
        """Return the partitions with these values, or all partitions."""
        ...

    def add(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Add partitions. Existing ones are not changed."""
        ...

    def change(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Change the location of existing partitions, and set their columns and format to those of the table."""
        ...

    def drop(self, table: CatalogTable, values: Sequence[Values]) -> None:
        """Drop partitions that exist. No data is deleted."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def refused(place: str, what: str, detail: str, hint: str = "", authorities: str = "") -> CatalogError:
    """Return the error of a catalog that refused a request. ``authorities``: the option with authorities for its certificate."""
    return CatalogError(
        f"{place} did not {what}: {' '.join(detail.split()):.300}".rstrip(": "),
        hint=hint
        or "No file of a table was changed. "
        + (
            advice(detail, authorities)
            or "Check the address, the network and the rights in the catalog. Then do it again; a sync continues."
        ),
    )
