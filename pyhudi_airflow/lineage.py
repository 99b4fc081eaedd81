"""The data for OpenLineage about a task: the tables that it read and wrote, their columns, the commit, and the number of rows.

An operator records the data while it runs, because OpenLineage requests the data after the task, in a separate process. By OpenLineage's rules for
files, the name of a table is its location. So a table has the same name in the lineage of a Spark job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import util
from typing import Any
from urllib.parse import urlsplit

import pyhudi as hudi
from pyhudi_core.lazy import lazy

extractors = lazy("airflow.providers.openlineage.extractors")
event_v2, facet_v2 = lazy("openlineage.client.event_v2"), lazy("openlineage.client.facet_v2")
_S3_OF_HADOOP = ("s3a", "s3n")


@dataclass(frozen=True, slots=True)
class TableUse:
    """A table that a task has read or written.

    Attributes:
        location: the table's location.
        columns: the names and types of its columns.
        facts: the facts of its commit, from `commit_facts`; empty if the task made no commit that changes rows.
    """

    location: str
    columns: tuple[tuple[str, str], ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, table: hudi.HudiTable, facts: Mapping[str, Any] | None = None) -> TableUse:
        """Return the use of a table with its columns."""
        return cls(table.location, tuple((column.name, str(column.type)) for column in table.schema), facts or {})


@cache
def is_wanted() -> bool:
    """Say whether the provider of OpenLineage is installed."""
    return util.find_spec("airflow.providers") is not None and bool(util.find_spec("airflow.providers.openlineage"))


def lineage_of(read: Sequence[TableUse], written: Sequence[TableUse]) -> Any:
    """Return the ``OperatorLineage`` of a task."""
    outputs = []
    for location, newest in {use.location: use for use in written}.items():
        commits = [use.facts for use in written if use.location == location and use.facts]
        statistics = facet_v2.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
            rowCount=sum(facts["rows_inserted"] + facts["rows_updated"] for facts in commits),
            size=sum(facts["bytes_written"] for facts in commits),
            fileCount=sum(facts["files"] for facts in commits),
        )
        figures = {"outputStatistics": statistics} if commits else {}
        outputs.append(event_v2.OutputDataset(*name_of(location), facets=_facets(newest), outputFacets=figures))
    inputs = [event_v2.InputDataset(*name_of(use.location), facets=_facets(use)) for use in read]
    return extractors.OperatorLineage(inputs=inputs, outputs=outputs)


def name_of(location: str) -> tuple[str, str]:
    """Return the namespace and the name of the table at a location."""
    parts = urlsplit(location)
    if parts.scheme in ("", "file"):
        return "file", parts.path
    scheme = "s3" if parts.scheme in _S3_OF_HADOOP else parts.scheme
    return f"{scheme}://{parts.netloc}", parts.path.strip("/")


def _facets(use: TableUse) -> dict[str, Any]:
    """Return the columns, and the instant as the version of the table."""
    facets: dict[str, Any] = {}
    if use.columns:
        columns = [facet_v2.schema_dataset.SchemaDatasetFacetFields(name=name, type=kind) for name, kind in use.columns]
        facets["schema"] = facet_v2.schema_dataset.SchemaDatasetFacet(fields=columns)
    if use.facts:
        instant = use.facts["instant"]
        facets["version"] = facet_v2.dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=instant)
    return facets
