"""AWS Glue as a catalog, through boto3. Each request is bounded, and sent once.

Tables on Amazon's S3 give credentials and region by their storage options; otherwise boto3 finds them. Keys of another store, with an
``endpoint_url``, are not used for Glue.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyhudi_core.catalog.objects import (
    EXTERNAL,
    MANAGED,
    OUTPUT_FORMAT,
    SERDE,
    AlreadyThere,
    CatalogColumn,
    CatalogPartition,
    CatalogTable,
    ChangedMeanwhile,
    Values,
    refused,
)
from pyhudi_core.errors import CatalogError, from_extra
from pyhudi_core.options.catalog import CatalogOptions
from pyhudi_core.storage.clear_text import warn_of_clear_text
from pyhudi_core.storage.s3_options import S3Options

_MOST_WRITTEN, _MOST_DROPPED, _MOST_READ = 100, 25, 1_000
"""The maximum numbers of partitions in one request."""
_OF_AN_INPUT = frozenset(
    ("Name", "Description", "Owner", "LastAccessTime", "LastAnalyzedTime", "Retention", "StorageDescriptor", "PartitionKeys", "ViewOriginalText",
     "ViewExpandedText", "TableType", "Parameters", "TargetTable")
)  # fmt: skip
"""The fields of a Glue table that a request may set; Glue fills in the others."""
_OF_A_PARTITION = frozenset(("LastAccessTime", "LastAnalyzedTime", "Parameters"))
_DENIED = ("AccessDeniedException", "UnrecognizedClientException", "ExpiredTokenException", "InvalidSignatureException")
_RIGHTS = (
    "No file of a table was changed. A sync needs the rights glue:GetDatabase, CreateDatabase, GetTable, CreateTable, UpdateTable, "
    "GetPartitions, BatchGetPartition, BatchCreatePartition, BatchUpdatePartition and BatchDeletePartition"
    " (tables by their names also GetTables and DeleteTable). Credentials are the storage options of a "
    "table on S3, or those that boto3 finds."
)


class GlueCatalog:
    """Glue in one region, as the options say; ``storage``: the options of a storage whose credentials and region are used."""

    def __init__(self, options: CatalogOptions, storage: S3Options | None = None) -> None:
        with from_extra("s3", "A catalog in Glue"):
            from botocore.config import Config  # noqa: PLC0415 (an extra)
            from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

            from pyhudi_core.storage.s3_client import session_of  # noqa: PLC0415

        self._failures = (BotoCoreError, ClientError, ValueError)
        self._skips_archive = options.skip_archive
        self._own = {"CatalogId": options.catalog_id} if options.catalog_id else {}
        wait_s = options.request_ms / 1_000
        self.place = f"Glue ({options.endpoint or options.region or 'the region of the environment'})"
        try:
            self._client = session_of(storage or S3Options()).client(
                "glue",
                region_name=options.region or None,
                endpoint_url=options.endpoint or None,
                config=Config(retries={"total_max_attempts": 1}, connect_timeout=wait_s, read_timeout=wait_s),
            )
        except self._failures as error:
            raise refused(self.place, "take a connection", str(error)) from None
        warn_of_clear_text(self._client.meta.endpoint_url, "Glue")

    def has_database(self, name: str) -> bool:
        return self._ask("get_database", Name=name, otherwise="EntityNotFoundException") is not None

    def folder_of(self, database: str) -> str:
        return self._ask("get_database", Name=database)["Database"].get("LocationUri") or ""

    def tables(self, database: str) -> Iterator[CatalogTable]:
        for raw in self._pages("get_tables", "TableList", DatabaseName=database):
            yield _table_of(raw)

    def create_database(self, name: str) -> None:
        self._ask("create_database", DatabaseInput={"Name": name}, otherwise="AlreadyExistsException")

    def table(self, database: str, name: str) -> CatalogTable | None:
        found = self._ask("get_table", DatabaseName=database, Name=name, otherwise="EntityNotFoundException")
        return None if found is None else _table_of(found["Table"])

    def create(self, table: CatalogTable) -> None:
        given = {
            "Name": table.name,
            "TableType": MANAGED if table.managed else EXTERNAL,
            "PartitionKeys": _columns(table.partition_keys),
            "Parameters": dict(table.parameters),
            "StorageDescriptor": _descriptor(table, table.location, table.input_format),
        }
        made = self._ask(
            "create_table", DatabaseName=table.database, TableInput=given, otherwise="AlreadyExistsException"
        )
        if made is None:
            raise AlreadyThere

    def alter(self, table: CatalogTable, *, cascade: bool) -> None:
        """Alter the table, its partitions first: after a crash in between, the table is unchanged, and the next sync begins again."""
        if cascade:
            known = list(self.partitions(table, None).values())
            for start in range(0, len(known), _MOST_WRITTEN):
                self.change(table, known[start : start + _MOST_WRITTEN])
        given = {name: value for name, value in table.raw.items() if name in _OF_AN_INPUT}
        given["Parameters"] = dict(table.parameters)
        descriptor = given.get("StorageDescriptor") or {}
        given["StorageDescriptor"] = {
            **descriptor,
            "Columns": _columns(table.columns),
            "InputFormat": table.input_format,
            "SerdeInfo": {**(descriptor.get("SerdeInfo") or {}), "Parameters": dict(table.serde_parameters)},
        }
        version = {"VersionId": table.raw["VersionId"]} if table.raw.get("VersionId") else {}
        how = {**version, "SkipArchive": self._skips_archive, "otherwise": "ConcurrentModificationException"}
        if self._ask("update_table", DatabaseName=table.database, TableInput=given, **how) is None:
            raise ChangedMeanwhile

    def remove(self, table: CatalogTable) -> None:
        gone = "EntityNotFoundException"
        self._ask("delete_table", DatabaseName=table.database, Name=table.name, otherwise=gone)

    def partitions(self, table: CatalogTable, wanted: Collection[Values] | None) -> dict[Values, CatalogPartition]:
        found = self._every(table) if wanted is None else self._named(table, list(wanted))
        made = (
            CatalogPartition(
                tuple(raw["Values"]),
                raw["StorageDescriptor"].get("Location") or "",
                raw["StorageDescriptor"].get("InputFormat") or "",
            )
            for raw in found
        )
        return {one.values: one for one in made}

    def add(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        for piece in _pieces(partitions, _MOST_WRITTEN):
            made = [_partition(table, one) for one in piece]
            done = self._of(table, "batch_create_partition", PartitionInputList=made)
            self._refuse(table, "add", done.get("Errors"), but="AlreadyExistsException")

    def change(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        for piece in _pieces(partitions, _MOST_WRITTEN):
            there = {tuple(raw["Values"]): raw for raw in self._named(table, [one.values for one in piece])}
            entries = [
                {
                    "PartitionValueList": list(one.values),
                    "PartitionInput": _partition(table, one, there.get(one.values, {})),
                }
                for one in piece
            ]
            done = self._of(table, "batch_update_partition", Entries=entries)
            self._refuse(table, "change", done.get("Errors"), but="")

    def drop(self, table: CatalogTable, values: Sequence[Values]) -> None:
        for piece in _pieces(values, _MOST_DROPPED):
            gone = [{"Values": list(one)} for one in piece]
            done = self._of(table, "batch_delete_partition", PartitionsToDelete=gone)
            self._refuse(table, "drop", done.get("Errors"), but="EntityNotFoundException")

    def close(self) -> None:
        self._client.close()

    def _every(self, table: CatalogTable) -> Iterator[Mapping[str, Any]]:
        where = {"DatabaseName": table.database, "TableName": table.name}
        return self._pages("get_partitions", "Partitions", ExcludeColumnSchema=True, **where)

    def _pages(self, method: str, what: str, **request: Any) -> Iterator[Mapping[str, Any]]:
        token: dict[str, str] = {}
        while True:
            answer = self._ask(method, **request, **token)
            yield from answer[what]
            if not answer.get("NextToken"):
                return
            token = {"NextToken": answer["NextToken"]}

    def _named(self, table: CatalogTable, wanted: Sequence[Values]) -> Iterator[Mapping[str, Any]]:
        for piece in _pieces(wanted, _MOST_READ):
            left = [{"Values": list(one)} for one in piece]
            while left:
                answer = self._of(table, "batch_get_partition", PartitionsToGet=left)
                yield from answer.get("Partitions") or ()
                left = answer.get("UnprocessedKeys") or []

    def _of(self, table: CatalogTable, method: str, **request: Any) -> Any:
        return self._ask(method, DatabaseName=table.database, TableName=table.name, **request)

    def _ask(self, method: str, otherwise: str = "", **request: Any) -> Any:
        """Send a request; None if Glue answers with the code ``otherwise``. Raises `CatalogError`."""
        try:
            return getattr(self._client, method)(**self._own, **request)
        except self._failures as error:
            answer = getattr(error, "response", None) or {}  # a lost connection has none
            found = answer.get("Error", {})
            code = str(found.get("Code", ""))
            if otherwise and code == otherwise:
                return None
            denied = code in _DENIED or answer.get("ResponseMetadata", {}).get("HTTPStatusCode") == 403
            text = f"{code} {found.get('Message') or error!s}".strip()
            raise refused(
                self.place, f"do {method}", text, _RIGHTS if denied else "", "the variable AWS_CA_BUNDLE"
            ) from None

    def _refuse(self, table: CatalogTable, verb: str, errors: Iterable[Mapping[str, Any]] | None, but: str) -> None:
        """Raise `CatalogError` for the first partition that failed with a code other than ``but``."""
        for one in errors or ():
            detail = one.get("ErrorDetail") or {}
            if detail.get("ErrorCode") != but:
                values = one.get("PartitionValues") or one.get("PartitionValueList")
                raise self._failed(table, verb, values, detail)

    def _failed(self, table: CatalogTable, verb: str, values: object, detail: Mapping[str, Any]) -> CatalogError:
        said = f"{detail.get('ErrorCode', '')} {detail.get('ErrorMessage', '')}".strip()
        return refused(self.place, f"{verb} the partition {values} of {table.full_name}", said)


def _pieces(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _columns(columns: Iterable[CatalogColumn]) -> list[dict[str, str]]:
    return [
        {"Name": one.name, "Type": one.type, **({"Comment": one.comment} if one.comment else {})} for one in columns
    ]


def _table_of(raw: Mapping[str, Any]) -> CatalogTable:
    descriptor = raw.get("StorageDescriptor") or {}
    return CatalogTable(
        database=raw["DatabaseName"],
        name=raw["Name"],
        columns=_columns_of(descriptor.get("Columns") or ()),
        partition_keys=_columns_of(raw.get("PartitionKeys") or ()),
        location=descriptor.get("Location") or "",
        input_format=descriptor.get("InputFormat") or "",
        parameters=dict(raw.get("Parameters") or {}),
        serde_parameters=dict((descriptor.get("SerdeInfo") or {}).get("Parameters") or {}),
        managed=raw.get("TableType") == MANAGED,
        created=str(raw.get("CreateTime", "")),
        raw=raw,
    )


def _columns_of(raw: Iterable[Mapping[str, str]]) -> tuple[CatalogColumn, ...]:
    return tuple(CatalogColumn(one["Name"], one.get("Type", ""), one.get("Comment", "")) for one in raw)


def _descriptor(table: CatalogTable, location: str, input_format: str, there: Mapping[str, Any] = {}) -> dict[str, Any]:
    """Return a storage descriptor; ``there``: the existing one, whose other fields stay."""
    return {
        **there,
        "Columns": _columns(table.columns),
        "Location": location,
        "InputFormat": input_format,
        "OutputFormat": OUTPUT_FORMAT,
        "SerdeInfo": {"SerializationLibrary": SERDE, "Parameters": dict(table.serde_parameters)},
    }


def _partition(table: CatalogTable, one: CatalogPartition, there: Mapping[str, Any] = {}) -> dict[str, Any]:
    """Return the input for a partition; ``there``: the existing one, whose other fields stay, such as parameters of other programs."""
    descriptor = there.get("StorageDescriptor") or {}
    return {
        **{name: value for name, value in there.items() if name in _OF_A_PARTITION},
        "Values": list(one.values),
        "StorageDescriptor": _descriptor(table, one.location, one.input_format or table.input_format, descriptor),
    }
