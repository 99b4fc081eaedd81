"""Functions for packages that use tables under an orchestrator, such as ``pyhudi_dagster``. Users of these packages need few of these names.

They are as stable as the names of ``pyhudi``, do not depend on an orchestrator, and are imported on first use. By module:

- ``settings``, ``table_match``: the settings of an asset or a task for its table (`TableSettings`), the write that it requests (`HudiWrite`), and the
  check of a table that differs (`refuse_mismatch`).
- ``first_writes``: the tables that a write creates, which are dropped if the write is refused (`new_tables`).
- ``only_read``: a table that this release does not write (`what_works`, `refuse_only_read`).
- ``data``: what a function may return (`normalised`, with the orchestrator's own words in a `Giver`), and only the rows of some partitions.
- ``partition_values``, ``partition_condition``: the folders of a span of time (`Folders`), and the scan of some partitions (`condition_of`).
- ``incremental`` on ``checkpoints``, ``gaps`` and ``backlog``: `changes_since` gives the unread `Changes` of a table to a `Reader`; the commit that
  processes them stores `extra_of`, under the gate `refuse_if_consumed`. ``several_outputs``: the same for several tables of one function.
- ``past_commits``: the commit of an earlier attempt (`find_made`), the newest commit of a reader (`newest_with_rows`), and the file of a commit
  (`place_of`).
- ``sharing``: steps whose upserts share a commit (`shared_upsert`, `is_shared`), and the part of one step (`own_part`).
- ``table_services``: the table services of a table, and what each would do now.
- ``timeline_cursor``, ``instant_times``: the instants that a sensor has reported, and the moments of instant times.
- ``spark_start``: a Spark session, with an error that says what is missing (`started_spark`).
- ``errors``: the errors of runs.

From lower layers: the available table services (`service_kinds`, and only their names: `SERVICE_NAMES`), before a table is opened; checks of options
before a run (`options_for_open`, `refuse_unfit_options`); a write that retries, and asks before it commits (`commit_with_retries`); writes to several
tables that become visible together (`CommitTogether`, `why_not_together`, `refuse_apart`, `refuse_torn`), of one lake (`options_in_lake`); the
counterpart of `pyhudi.commit_for`, which requests a write from another process and permits its commit (`WriteRequest`, `RemoteGate`, `open_gate`,
`schema_text`); rows of any kind as one Arrow table (`as_table`); options that would have kept expired files (`how_to_keep_more`); options
with secrets (`holds_secret`); the check of a table's name (`name_in_lake`); the name that a
misspelt one means (`nearest`), also of a service (`no_service`); and the error for an extra that is not installed (`from_extra`).
"""

from typing import TYPE_CHECKING

from pyhudi_core.lazy import lazy_names

if TYPE_CHECKING:
    from pyhudi_core.engine.local import as_table as as_table
    from pyhudi_core.engine.pandas_frames import is_pandas as is_pandas
    from pyhudi_core.errors import from_extra as from_extra
    from pyhudi_core.model.masking import holds_secret as holds_secret
    from pyhudi_core.model.masking import masked_text as masked_text
    from pyhudi_core.naming import nearest as nearest
    from pyhudi_core.options import options_for_open as options_for_open
    from pyhudi_core.options.fitting import refuse_unfit_options as refuse_unfit_options
    from pyhudi_core.orchestration.backlog import Backlog as Backlog
    from pyhudi_core.orchestration.backlog import backlog_of as backlog_of
    from pyhudi_core.orchestration.checkpoints import Positions as Positions
    from pyhudi_core.orchestration.checkpoints import positions_of as positions_of
    from pyhudi_core.orchestration.data import Giver as Giver
    from pyhudi_core.orchestration.data import normalised as normalised
    from pyhudi_core.orchestration.data import only_values as only_values
    from pyhudi_core.orchestration.data import schema_of as schema_of
    from pyhudi_core.orchestration.errors import CheckpointGapError as CheckpointGapError
    from pyhudi_core.orchestration.errors import ForeignRowsError as ForeignRowsError
    from pyhudi_core.orchestration.errors import RunEndedError as RunEndedError
    from pyhudi_core.orchestration.errors import TableMismatchError as TableMismatchError
    from pyhudi_core.orchestration.errors import UpstreamMissingError as UpstreamMissingError
    from pyhudi_core.orchestration.errors import definition_error as definition_error
    from pyhudi_core.orchestration.first_writes import new_tables as new_tables
    from pyhudi_core.orchestration.gaps import Acceptance as Acceptance
    from pyhudi_core.orchestration.gaps import Gap as Gap
    from pyhudi_core.orchestration.gaps import acceptance_of as acceptance_of
    from pyhudi_core.orchestration.gaps import gaps_in as gaps_in
    from pyhudi_core.orchestration.incremental import Changes as Changes
    from pyhudi_core.orchestration.incremental import Reader as Reader
    from pyhudi_core.orchestration.incremental import changes_from as changes_from
    from pyhudi_core.orchestration.incremental import changes_since as changes_since
    from pyhudi_core.orchestration.incremental import extra_of as extra_of
    from pyhudi_core.orchestration.incremental import refuse_if_consumed as refuse_if_consumed
    from pyhudi_core.orchestration.instant_times import moment_of as moment_of
    from pyhudi_core.orchestration.instant_times import time_of as time_of
    from pyhudi_core.orchestration.only_read import refuse_only_read as refuse_only_read
    from pyhudi_core.orchestration.only_read import say_what_works as say_what_works
    from pyhudi_core.orchestration.only_read import what_works as what_works
    from pyhudi_core.orchestration.partition_condition import condition_of as condition_of
    from pyhudi_core.orchestration.partition_values import Folders as Folders
    from pyhudi_core.orchestration.partition_values import value_of_path as value_of_path
    from pyhudi_core.orchestration.past_commits import PastCommit as PastCommit
    from pyhudi_core.orchestration.past_commits import commit_of as commit_of
    from pyhudi_core.orchestration.past_commits import commits_newest_first as commits_newest_first
    from pyhudi_core.orchestration.past_commits import find_made as find_made
    from pyhudi_core.orchestration.past_commits import newest_with_rows as newest_with_rows
    from pyhudi_core.orchestration.past_commits import place_of as place_of
    from pyhudi_core.orchestration.remote_gate import RemoteGate as RemoteGate
    from pyhudi_core.orchestration.remote_write import WriteRequest as WriteRequest
    from pyhudi_core.orchestration.remote_write import open_gate as open_gate
    from pyhudi_core.orchestration.remote_write import schema_text as schema_text
    from pyhudi_core.orchestration.settings import HudiWrite as HudiWrite
    from pyhudi_core.orchestration.settings import TableSettings as TableSettings
    from pyhudi_core.orchestration.settings import checked_operation as checked_operation
    from pyhudi_core.orchestration.settings import write_asked_for as write_asked_for
    from pyhudi_core.orchestration.several_outputs import SharedChanges as SharedChanges
    from pyhudi_core.orchestration.several_outputs import rows_by_table as rows_by_table
    from pyhudi_core.orchestration.several_outputs import shared_changes as shared_changes
    from pyhudi_core.orchestration.sharing import is_shared as is_shared
    from pyhudi_core.orchestration.sharing import own_part as own_part
    from pyhudi_core.orchestration.sharing import shared_upsert as shared_upsert
    from pyhudi_core.orchestration.spark_start import started_spark as started_spark
    from pyhudi_core.orchestration.table_match import refuse_mismatch as refuse_mismatch
    from pyhudi_core.orchestration.table_services import ServiceState as ServiceState
    from pyhudi_core.orchestration.table_services import service_states as service_states
    from pyhudi_core.orchestration.table_services import state_of as state_of
    from pyhudi_core.orchestration.timeline_cursor import TablePosition as TablePosition
    from pyhudi_core.orchestration.timeline_cursor import TimelineCursor as TimelineCursor
    from pyhudi_core.read.expired import how_to_keep_more as how_to_keep_more
    from pyhudi_core.services.registry import service_kinds as service_kinds
    from pyhudi_core.services.upkeep_rules import SERVICE_NAMES as SERVICE_NAMES
    from pyhudi_core.services.upkeep_rules import no_service as no_service
    from pyhudi_core.storage.paths import name_in_lake as name_in_lake
    from pyhudi_core.storage.paths import options_in_lake as options_in_lake
    from pyhudi_core.table_transactions import CommitTogether as CommitTogether
    from pyhudi_core.table_transactions import refuse_apart as refuse_apart
    from pyhudi_core.table_transactions import refuse_torn as refuse_torn
    from pyhudi_core.table_transactions import why_not_together as why_not_together
    from pyhudi_core.write.handle import commit_with_retries as commit_with_retries

_HOMES = {
    "Acceptance": "orchestration.gaps",
    "Backlog": "orchestration.backlog",
    "Changes": "orchestration.incremental",
    "CheckpointGapError": "orchestration.errors",
    "CommitTogether": "table_transactions",
    "TimelineCursor": "orchestration.timeline_cursor",
    "Folders": "orchestration.partition_values",
    "ForeignRowsError": "orchestration.errors",
    "Gap": "orchestration.gaps",
    "Giver": "orchestration.data",
    "HudiWrite": "orchestration.settings",
    "PastCommit": "orchestration.past_commits",
    "Positions": "orchestration.checkpoints",
    "Reader": "orchestration.incremental",
    "RemoteGate": "orchestration.remote_gate",
    "RunEndedError": "orchestration.errors",
    "ServiceState": "orchestration.table_services",
    "SERVICE_NAMES": "services.upkeep_rules",
    "SharedChanges": "orchestration.several_outputs",
    "TableMismatchError": "orchestration.errors",
    "TablePosition": "orchestration.timeline_cursor",
    "TableSettings": "orchestration.settings",
    "UpstreamMissingError": "orchestration.errors",
    "WriteRequest": "orchestration.remote_write",
    "acceptance_of": "orchestration.gaps",
    "as_table": "engine.local",
    "backlog_of": "orchestration.backlog",
    "changes_from": "orchestration.incremental",
    "changes_since": "orchestration.incremental",
    "checked_operation": "orchestration.settings",
    "commit_of": "orchestration.past_commits",
    "commit_with_retries": "write.handle",
    "commits_newest_first": "orchestration.past_commits",
    "condition_of": "orchestration.partition_condition",
    "definition_error": "orchestration.errors",
    "extra_of": "orchestration.incremental",
    "find_made": "orchestration.past_commits",
    "from_extra": "errors",
    "gaps_in": "orchestration.gaps",
    "how_to_keep_more": "read.expired",
    "is_pandas": "engine.pandas_frames",
    "holds_secret": "model.masking",
    "masked_text": "model.masking",
    "is_shared": "orchestration.sharing",
    "moment_of": "orchestration.instant_times",
    "name_in_lake": "storage.paths",
    "nearest": "naming",
    "no_service": "services.upkeep_rules",
    "new_tables": "orchestration.first_writes",
    "newest_with_rows": "orchestration.past_commits",
    "normalised": "orchestration.data",
    "only_values": "orchestration.data",
    "open_gate": "orchestration.remote_write",
    "options_for_open": "options",
    "options_in_lake": "storage.paths",
    "own_part": "orchestration.sharing",
    "place_of": "orchestration.past_commits",
    "positions_of": "orchestration.checkpoints",
    "refuse_if_consumed": "orchestration.incremental",
    "refuse_apart": "table_transactions",
    "refuse_mismatch": "orchestration.table_match",
    "refuse_only_read": "orchestration.only_read",
    "refuse_torn": "table_transactions",
    "refuse_unfit_options": "options.fitting",
    "rows_by_table": "orchestration.several_outputs",
    "say_what_works": "orchestration.only_read",
    "schema_of": "orchestration.data",
    "schema_text": "orchestration.remote_write",
    "service_kinds": "services.registry",
    "service_states": "orchestration.table_services",
    "shared_changes": "orchestration.several_outputs",
    "shared_upsert": "orchestration.sharing",
    "started_spark": "orchestration.spark_start",
    "state_of": "orchestration.table_services",
    "time_of": "orchestration.instant_times",
    "value_of_path": "orchestration.partition_values",
    "what_works": "orchestration.only_read",
    "why_not_together": "table_transactions",
    "write_asked_for": "orchestration.settings",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605

__getattr__ = lazy_names(__name__, _HOMES, "pyhudi_core")


def __dir__() -> list[str]:
    return sorted(__all__)
