"""Options of Hudi that have no meaning here, by the beginning of their keys, with the reason and what serves instead."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_CALLS = "the method that is called says it, such as table.upsert(data)."
_QUERY = "scan(), incremental(), changes() and scan(mode='read_optimized') say what is read."
_SYNC = "tables are not registered in catalogs. Run Hudi's sync tool on the table."
_SERVER = "listing and markers need no timeline server here."
_PARALLEL = "the number of tasks follows from the data and the cores."
_UTILITIES = "Hudi Streamer is a program of Hudi. hudi.Consumer and the stream sink read and write step by step here."

NOT_HERE: Mapping[str, str] = MappingProxyType(
    {
        "hoodie.datasource.write.operation": _CALLS,
        "hoodie.datasource.query.": _QUERY,
        "hoodie.datasource.read.": _QUERY,
        "hoodie.datasource.hive_sync.": _SYNC,
        "hoodie.datasource.meta.sync.": _SYNC,
        "hoodie.datasource.meta_sync.": _SYNC,
        "hoodie.meta.sync.": _SYNC,
        "hoodie.gcp.bigquery.sync.": _SYNC,
        "hoodie.datahub.": _SYNC,
        "hoodie.aws.glue.": _SYNC,
        "hoodie.embed.timeline.server": _SERVER,
        "hoodie.filesystem.view.": _SERVER,
        "hoodie.upsert.shuffle.parallelism": _PARALLEL,
        "hoodie.insert.shuffle.parallelism": _PARALLEL,
        "hoodie.bulkinsert.shuffle.parallelism": _PARALLEL,
        "hoodie.delete.shuffle.parallelism": _PARALLEL,
        "hoodie.finalize.write.parallelism": _PARALLEL,
        "hoodie.streamer.": _UTILITIES,
        "hoodie.deltastreamer.": _UTILITIES,
    }
)
