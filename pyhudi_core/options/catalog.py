"""The options of the sync to a catalog (Hive Metastore or Glue). The keys, and most defaults, are those of Hudi's sync tools."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.option import declared, words

_HIVE, _META, _GLUE = "hoodie.datasource.hive_sync.", "hoodie.meta.sync.", "hoodie.datasource.meta.sync.glue."
CA = "pyhudi.catalog.tls.ca"
HMS, GLUE, MANIFEST = "hms", "glue", "manifest"
_NAME = re.compile(r"\w[\w-]*")


@dataclass(frozen=True, slots=True)
class CatalogOptions:
    """The catalog, and the form of the table in the catalog."""

    automatic: bool = declared(
        f"{_HIVE}enable",
        False,
        "Every commit also syncs the table to its catalog (`table.catalog`), and upkeep brings the catalog to the newest state.",
        aliases=("hoodie.datasource.meta.sync.enable",),
    )
    mode: str = declared(
        f"{_HIVE}mode",
        HMS,
        "The catalog: `hms`, a Hive Metastore through its Thrift interface; `glue`, AWS Glue; `manifest`, no catalog, but the file "
        "`.hoodie/absolute-path-manifest/latest-snapshot.csv` with the newest base files.",
        choices={
            **words(HMS, GLUE, MANIFEST),
            "org.apache.hudi.hive.hivesynctool": HMS,
            "org.apache.hudi.aws.sync.awsgluecatalogsynctool": GLUE,
        },
        not_yet=("jdbc", "hiveql", "org.apache.hudi.gcp.bigquery.bigquerysynctool"),
        aliases=(f"{_META}client.tool.class",),
    )
    uris: str = declared(
        f"{_HIVE}metastore.uris",
        "thrift://localhost:9083",
        "The metastores, such as `thrift://host1:9083,thrift://host2:9083`; they share one database.",
    )
    database: str = declared(f"{_HIVE}database", "default", "The database of the table in the catalog.")
    table: str = declared(
        f"{_HIVE}table", "", "The name of the table in the catalog; by default that of `hoodie.table.name`."
    )
    strategy: str = declared(
        f"{_HIVE}table.strategy",
        "ALL",
        "The catalog's tables for a merge-on-read table: `ALL`, a read-optimized one (`_ro`), a real-time one (`_rt`) and a real-time one under the "
        "table's own name; `RO` or `RT`, only the read-optimized or the real-time one, under the table's own name.",
        choices=words("ALL", "RO", "RT"),
    )
    plain_snapshot: bool = declared(
        f"{_META}sync_snapshot_with_table_name",
        True,
        "With the strategy `ALL`, the catalog also has the real-time table under the table's own name.",
    )
    plain_ro: bool = declared(
        f"{_HIVE}skip_ro_suffix",
        False,
        "With the strategy `ALL`, the read-optimized table has the table's own name instead of `_ro`.",
    )
    timestamps: bool = declared(
        f"{_HIVE}support_timestamp",
        True,
        "Times are `timestamp` in the catalog, as with Hudi's Spark jobs. If false they are `bigint`, as with Hudi's sync tool alone.",
    )
    no_meta_columns: bool = declared(f"{_HIVE}omit_metadata_fields", False, "Leave the meta columns out.")
    comments: bool = declared(f"{_HIVE}sync_comment", False, "The comments of columns are those of the table's rules.")
    data_source: bool = declared(
        f"{_HIVE}sync_as_datasource",
        True,
        "Store the parameters with which Spark opens the table by Hudi's data source.",
    )
    schema_piece: int = declared(
        f"{_HIVE}schema_string_length_thresh",
        4_000,
        "Number of characters of each piece of the schema for Spark.",
        minimum=100,
    )
    managed: bool = declared(
        f"{_HIVE}create_managed_table",
        False,
        "A new table in the catalog is a managed one: dropping it there deletes the data. By default it is external.",
    )
    creates_database: bool = declared(
        f"{_HIVE}auto_create_database", True, "Create the database in the catalog if it is missing."
    )
    table_properties: str = declared(
        f"{_HIVE}table_properties", "", "More parameters of the table, `key=value` each, separated by commas."
    )
    serde_properties: str = declared(
        f"{_HIVE}serde_properties", "", "More parameters of the serde, `key=value` each, separated by commas."
    )
    decodes: bool | None = declared(
        f"{_META}decode_partition",
        None,
        "Decode `%XX` in partition values. By default yes, if the folders of the table are encoded.",
    )
    incremental: bool = declared(
        f"{_META}incremental",
        True,
        "Look only at the partitions of the commits since the last sync. If false, each sync compares all partitions.",
    )
    conditional: bool = declared(
        "hoodie.datasource.meta_sync.condition.sync",
        False,
        "If neither columns nor partitions changed, the catalog is not changed; even the time of the last sync stays.",
    )
    batch: int = declared(
        f"{_HIVE}batch_num", 1_000, "Number of partitions in one request; Glue takes 100 at most.", minimum=1
    )
    metadata_listing: bool = declared(
        f"{_GLUE}metadata_file_listing",
        False,
        "Athena lists files by the table's metadata table (Glue: `hudi.metadata-listing-enabled`).",
    )
    skip_archive: bool = declared(
        f"{_GLUE}skip_table_archive", True, "Glue keeps no older version of the table when it is altered."
    )
    catalog_id: str = declared(f"{_GLUE}catalogId", "", "The id of the Glue catalog; by default the account's own.")
    region: str = declared("hoodie.aws.glue.region", "", "The region of Glue; by default that of the environment.")
    endpoint: str = declared(
        "hoodie.aws.glue.endpoint", "", "The address of Glue, `https://host`; by default that of its region."
    )
    tls: bool = declared(
        "pyhudi.catalog.tls", False, "Encrypt the connections to a metastore, and check its certificate and name."
    )
    ca: str = declared(
        CA, "", "A file with the authorities that may sign this certificate; by default those of the machine."
    )
    request_ms: int = declared(
        "pyhudi.catalog.request.timeout.ms",
        30_000,
        "Milliseconds to wait for a connection to the catalog, and for each answer.",
        minimum=10,
    )

    def __post_init__(self) -> None:
        for key, name in (("database", self.database), ("table", self.table)):
            if name and not _NAME.fullmatch(name):
                raise InvalidOptionError(
                    f"{_HIVE}{key} is not a name: {name[:80]!r}",
                    hint="Names in a catalog have letters, digits, _ and -; database and table are two options.",
                )
        if self.ca and not self.tls:
            raise InvalidOptionError(
                f"{CA} is given, and pyhudi.catalog.tls is not true",
                hint="Set it to true, so that the connection is encrypted; or omit the file.",
            )
        if "@" in self.endpoint:  # the message does not show the value, because it may have a password
            raise InvalidOptionError(
                "hoodie.aws.glue.endpoint has a user or a password, which Glue does not take there",
                hint="Write it as https://host:port. Credentials are the storage options of a table on S3, or those that boto3 finds.",
            )
        for key, text in (("table_properties", self.table_properties), ("serde_properties", self.serde_properties)):
            pairs_of(f"{_HIVE}{key}", text)


def pairs_of(key: str, text: str) -> dict[str, str]:
    """Return the parameters of an option that holds ``key=value`` pairs. Raises `InvalidOptionError`."""
    found: dict[str, str] = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = each.partition("=")
        if not equals or not name.strip():
            raise InvalidOptionError(f"{key} has a part without a key and =", hint="Write it as key=value,key2=value2.")
        found[name.strip()] = value.strip()
    return found
