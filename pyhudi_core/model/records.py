"""Avro schemas of the records on the timeline (specification, sections "Commit", "Clean", "Compaction", ...).

Equal to the schemas that Hudi 1.0.2 to 1.2.0 write into timeline files, without the documentation texts: same fields, order, unions,
defaults and properties (``avro.java.string``, and the stray ``default`` inside some types). Hudi reads a record encoded with them as
one of its own.

`AVRO_SCHEMAS` maps the short record name to the schema of one timeline file (or of one row of the history).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

NAMESPACE = "org.apache.hudi.avro.model"

Avro = dict[str, Any] | list[Any] | str
Field = dict[str, Any]

_STRING: Avro = {"type": "string", "avro.java.string": "String"}


def _field(name: str, kind: Avro, **default: Any) -> Field:
    return {"name": name, "type": kind, **default}


def _optional(name: str, kind: Avro) -> Field:
    return _field(name, ["null", kind], default=None)


def _strings(*names: str) -> list[Field]:
    return [_optional(name, _STRING) for name in names]


def _longs(*names: str) -> list[Field]:
    return [_optional(name, "long") for name in names]


def _texts(*names: str) -> list[Field]:
    """Return a list of strings without default."""
    return [_field(name, _STRING) for name in names]


def _version() -> Field:
    return _field("version", ["int", "null"], default=1)


def _array(items: Avro, **extra: Any) -> Avro:
    return {"type": "array", "items": items, **extra}


def _map(values: Avro, **extra: Any) -> Avro:
    return {"type": "map", "values": values, "avro.java.string": "String", **extra}


def _record(name: str, *fields: Field) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def _extra_metadata(**extra: Any) -> Field:
    return _optional("extraMetadata", _map(_STRING, **extra))


def _string_list(name: str) -> Field:
    return _optional(name, _array(_STRING))


def _required_lists(*names: str) -> list[Field]:
    return [_field(name, _array(_STRING)) for name in names]


_RUNTIME_STATS = _record("HoodieRuntimeStats", *_longs("totalScanTime", "totalCreateTime", "totalUpsertTime"))

_WRITE_STAT = _record(
    "HoodieWriteStat",
    *_strings("fileId", "path", "prevCommit"),
    *_longs("numWrites", "numDeletes", "numUpdateWrites", "totalWriteBytes", "totalWriteErrors"),
    *_strings("partitionPath"),
    *_longs("totalLogRecords", "totalLogFiles", "totalUpdatedRecordsCompacted", "numInserts", "totalLogBlocks"),
    *_longs("totalCorruptLogBlock", "totalRollbackBlocks", "fileSizeInBytes"),
    _optional("logVersion", "int"),
    *_longs("logOffset"),
    *_strings("baseFile"),
    _optional("logFiles", _array(_STRING, default=None)),
    _optional("cdcStats", _map("long", default=None)),
    *_strings("prevBaseFile"),
    *_longs("minEventTime", "maxEventTime"),
    _optional("runtimeStats", _RUNTIME_STATS),
    *_longs("totalLogFilesCompacted", "totalLogReadTimeMs", "totalLogSizeCompacted"),
    *_strings("tempPath"),
    *_longs("numUpdates"),
)


def _commit_fields(**map_extra: Any) -> list[Field]:
    return [
        _optional("partitionToWriteStats", _map(_array(_WRITE_STAT))),
        _optional("compacted", "boolean"),
        _extra_metadata(**map_extra),
        _version(),
        *_strings("operationType"),
    ]


_SLICE_INFO = _record(
    "HoodieSliceInfo",
    *_strings("dataFilePath"),
    _string_list("deltaFilePaths"),
    _field("fileId", ["null", _STRING]),
    *_strings("partitionPath", "bootstrapFilePath"),
    _version(),
)
_CLUSTERING_GROUP = _record(
    "HoodieClusteringGroup",
    _optional("slices", _array(_SLICE_INFO)),
    _optional("metrics", _map("double")),
    _field("numOutputFileGroups", ["int", "null"], default=1),
    _extra_metadata(),
    _version(),
)
_CLUSTERING_STRATEGY = _record(
    "HoodieClusteringStrategy",
    *_strings("strategyClassName"),
    _optional("strategyParams", _map(_STRING)),
    _version(),
)
_CLUSTERING_PLAN = _record(
    "HoodieClusteringPlan",
    _optional("inputGroups", _array(_CLUSTERING_GROUP)),
    _optional("strategy", _CLUSTERING_STRATEGY),
    _extra_metadata(),
    _version(),
    _optional("preserveHoodieMetadata", "boolean"),
    _string_list("missingSchedulePartitions"),
)

_COMPACTION_OPERATION = _record(
    "HoodieCompactionOperation",
    _field("baseInstantTime", ["null", _STRING]),
    _string_list("deltaFilePaths"),
    *_strings("dataFilePath"),
    _field("fileId", ["null", _STRING]),
    *_strings("partitionPath"),
    _optional("metrics", _map("double")),
    *_strings("bootstrapFilePath"),
)
_COMPACTION_STRATEGY = _record(
    "HoodieCompactionStrategy",
    *_strings("compactorClassName"),
    _optional("strategyParams", _map(_STRING)),
    _version(),
)

_FILE_STATUS = _record(
    "HoodieFileStatus",
    _version(),
    _optional("path", _record("HoodiePath", _version(), *_strings("uri"))),
    *_longs("length"),
    _optional("isDir", "boolean"),
    _optional("blockReplication", "int"),
    *_longs("blockSize", "modificationTime", "accessTime"),
    _optional(
        "permission",
        _record(
            "HoodieFSPermission",
            _version(),
            *_strings("userAction", "groupAction", "otherAction"),
            _optional("stickyBit", "boolean"),
        ),
    ),
    *_strings("owner", "group"),
    _optional("symlink", "HoodiePath"),
)

_ACTION_INSTANT = _record("HoodieActionInstant", *_texts("timestamp", "action", "state"))
_CLEAN_FILE_INFO = _record("HoodieCleanFileInfo", *_strings("filePath"), _optional("isBootstrapBaseFile", "boolean"))
_CLEAN_PARTITION = _record(
    "HoodieCleanPartitionMetadata",
    *_texts("partitionPath", "policy"),
    *_required_lists("deletePathPatterns", "successDeleteFiles", "failedDeleteFiles"),
    _optional("isPartitionDeleted", "boolean"),
)

_INSTANT_INFO = _record("HoodieInstantInfo", *_texts("commitTime", "action"))
_ROLLBACK_REQUEST = _record(
    "HoodieRollbackRequest",
    *_texts("partitionPath"),
    *_strings("fileId", "latestBaseInstant"),
    _field("filesToBeDeleted", _array(_STRING, default=[]), default=[]),
    _optional("logBlocksToBeDeleted", _map("long")),
)
_ROLLBACK_PARTITION = _record(
    "HoodieRollbackPartitionMetadata",
    *_texts("partitionPath"),
    *_required_lists("successDeleteFiles", "failedDeleteFiles"),
    _optional("rollbackLogFiles", _map("long")),
    _optional("logFilesFromFailedCommit", _map("long")),
)
_ROLLBACK_METADATA_FIELDS = [
    *_texts("startRollbackTime"),
    _field("timeTakenInMillis", "long"),
    _field("totalFilesDeleted", "int"),
    *_required_lists("commitsRollback"),
    _field("partitionMetadata", _map(_ROLLBACK_PARTITION)),
    _version(),
    _field("instantsRollback", _array(_INSTANT_INFO, default=[]), default=[]),
]

_SAVEPOINT_PARTITION = _record(
    "HoodieSavepointPartitionMetadata", *_texts("partitionPath"), *_required_lists("savepointDataFile")
)

_INDEX_PARTITION_INFO = _record(
    "HoodieIndexPartitionInfo",
    _version(),
    *_strings("metadataPartitionPath", "indexUptoInstant"),
    _extra_metadata(),
)
_INDEX_PARTITION_INFOS = _optional("indexPartitionInfos", _array(_INDEX_PARTITION_INFO))

_LAST_COMPLETED = _field("lastCompletedCommitTimestamp", _STRING, default="")

_FIELDS: dict[str, list[Field]] = {
    "HoodieCommitMetadata": _commit_fields(default=None),
    "HoodieReplaceCommitMetadata": [
        *_commit_fields(),
        _optional("partitionToReplaceFileIds", _map(_array(_STRING))),
    ],
    "HoodieRequestedReplaceMetadata": [
        *_strings("operationType"),
        _optional("clusteringPlan", _CLUSTERING_PLAN),
        _extra_metadata(),
        _version(),
    ],
    "HoodieClusteringPlan": _CLUSTERING_PLAN["fields"],
    "HoodieCompactionPlan": [
        _optional("operations", _array(_COMPACTION_OPERATION)),
        _extra_metadata(),
        _version(),
        _optional("strategy", _COMPACTION_STRATEGY),
        _field("preserveHoodieMetadata", ["boolean", "null"], default=False),
        _string_list("missingSchedulePartitions"),
    ],
    "HoodieCleanerPlan": [
        _optional("earliestInstantToRetain", _ACTION_INSTANT),
        _LAST_COMPLETED,
        *_texts("policy"),
        _optional("filesToBeDeletedPerPartition", _map(_array(_STRING))),
        _version(),
        _optional("filePathsToBeDeletedPerPartition", _map(_array(_CLEAN_FILE_INFO))),
        _string_list("partitionsToBeDeleted"),
        _extra_metadata(default=None),
    ],
    "HoodieCleanMetadata": [
        *_texts("startCleanTime"),
        _field("timeTakenInMillis", "long"),
        _field("totalFilesDeleted", "int"),
        *_texts("earliestCommitToRetain"),
        _LAST_COMPLETED,
        _field("partitionMetadata", _map(_CLEAN_PARTITION)),
        _version(),
        _optional("bootstrapPartitionMetadata", _map("HoodieCleanPartitionMetadata", default=None)),
        _extra_metadata(default=None),
    ],
    "HoodieRollbackPlan": [
        _optional("instantToRollback", _INSTANT_INFO),
        _optional("RollbackRequests", _array(_ROLLBACK_REQUEST)),
        _version(),
    ],
    "HoodieRollbackMetadata": _ROLLBACK_METADATA_FIELDS,
    "HoodieSavepointMetadata": [
        *_texts("savepointedBy"),
        _field("savepointedAt", "long"),
        *_texts("comments"),
        _field("partitionMetadata", _map(_SAVEPOINT_PARTITION)),
        _version(),
    ],
    "HoodieRestorePlan": [
        _field("instantsToRollback", _array(_INSTANT_INFO, default=[]), default=[]),
        _field("version", ["int", "null"], default=2),
        *_strings("savepointToRestoreTimestamp"),
    ],
    "HoodieRestoreMetadata": [
        *_texts("startRestoreTime"),
        _field("timeTakenInMillis", "long"),
        *_required_lists("instantsToRollback"),
        _field(
            "hoodieRestoreMetadata",
            _map(_array(["null", _record("HoodieRollbackMetadata", *_ROLLBACK_METADATA_FIELDS)])),
        ),
        _version(),
        # HoodieRollbackMetadata above defines the record type; Avro allows one definition of a name.
        _field("restoreInstantInfo", _array("HoodieInstantInfo", default=[]), default=[]),
    ],
    "HoodieBootstrapIndexInfo": [
        _version(),
        *_strings("bootstrapBasePath"),
        *_longs("createdTimestamp"),
        _optional("numKeys", "int"),
    ],
    "HoodieBootstrapPartitionMetadata": [
        _version(),
        *_strings("bootstrapPartitionPath", "partitionPath"),
        _optional("fileIdToBootstrapFile", _map(_FILE_STATUS)),
    ],
    "HoodieBootstrapFilePartitionInfo": [
        _version(),
        *_strings("bootstrapPartitionPath"),
        _optional("bootstrapFileStatus", _FILE_STATUS),
        *_strings("partitionPath"),
    ],
    "HoodieIndexPlan": [_version(), _INDEX_PARTITION_INFOS],
    "HoodieIndexCommitMetadata": [_version(), *_strings("operationType"), _INDEX_PARTITION_INFOS],
    "HoodieLSMTimelineInstant": [
        *_strings("instantTime", "completionTime", "action"),
        _optional("metadata", "bytes"),
        _optional("plan", "bytes"),
        _field("version", "int", default=1),
    ],
}

AVRO_SCHEMAS: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        name: {"type": "record", "name": name, "namespace": NAMESPACE, "fields": fields}
        for name, fields in _FIELDS.items()
    }
)
