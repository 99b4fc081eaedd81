"""Apache Hudi tables in Python: on Spark through PySpark, and on Arrow without Spark.

Writes versions 8 and 9 of the format, and reads versions 3 to 6, too.

Names are imported on first use. So a program that only declares tables (such as Dagster when it loads definitions) does not import the writer.
"""

from typing import TYPE_CHECKING

from pyhudi_core import errors as errors
from pyhudi_core.lazy import lazy_names

if TYPE_CHECKING:
    from pyhudi_core.conflicts.requirement import CommitRequirement as CommitRequirement
    from pyhudi_core.conflicts.requirement import FileGroupAt as FileGroupAt
    from pyhudi_core.conflicts.requirement import LatestInstantIs as LatestInstantIs
    from pyhudi_core.conflicts.requirement import NoCommitAfter as NoCommitAfter
    from pyhudi_core.conflicts.requirement import PropertyIs as PropertyIs
    from pyhudi_core.conflicts.requirement import SchemaIs as SchemaIs
    from pyhudi_core.consuming import Batch as Batch
    from pyhudi_core.consuming import Checkpoint as Checkpoint
    from pyhudi_core.consuming import Consumer as Consumer
    from pyhudi_core.doctor import CheckReport as CheckReport
    from pyhudi_core.doctor import Finding as Finding
    from pyhudi_core.doctor import Limits as Limits
    from pyhudi_core.engine.renaming import rename_columns as rename_columns
    from pyhudi_core.errors import HudiError as HudiError
    from pyhudi_core.importing.bootstrap import Bootstrap as Bootstrap
    from pyhudi_core.importing.bootstrap import bootstrap as bootstrap
    from pyhudi_core.importing.recovery import plan_recovery as plan_recovery
    from pyhudi_core.importing.recovery import recover as recover
    from pyhudi_core.importing.recovery_plan import RecoveryPlan as RecoveryPlan
    from pyhudi_core.lake_tables import Lake as Lake
    from pyhudi_core.lake_tables import lake as lake
    from pyhudi_core.merge import RecordMerger as RecordMerger
    from pyhudi_core.merge import register_merger as register_merger
    from pyhudi_core.merge import registered_mergers as registered_mergers
    from pyhudi_core.merge import unregister_merger as unregister_merger
    from pyhudi_core.model.commit import CommitMetadata as CommitMetadata
    from pyhudi_core.model.commit import WriteStat as WriteStat
    from pyhudi_core.model.instant import Action as Action
    from pyhudi_core.model.instant import Instant as Instant
    from pyhudi_core.model.instant import State as State
    from pyhudi_core.model.operation import OperationType as OperationType
    from pyhudi_core.model.properties import TableConfig as TableConfig
    from pyhudi_core.model.table_rules import TableRules as TableRules
    from pyhudi_core.opening import check_table as check_table
    from pyhudi_core.opening import create_table as create_table
    from pyhudi_core.opening import drop_table as drop_table
    from pyhudi_core.opening import open_table as open_table
    from pyhudi_core.opening import table_exists as table_exists
    from pyhudi_core.orchestration.remote_write import commit_for as commit_for
    from pyhudi_core.read.scan import Scan as Scan
    from pyhudi_core.read.sizes import Size as Size
    from pyhudi_core.read.sizes import TableSize as TableSize
    from pyhudi_core.services.service import ServicePlan as ServicePlan
    from pyhudi_core.services.service import ServiceResult as ServiceResult
    from pyhudi_core.services.service import TableService as TableService
    from pyhudi_core.services.upkeep_rules import UpkeepRules as UpkeepRules
    from pyhudi_core.source_transactions import held_transactions as held_transactions
    from pyhudi_core.source_transactions import transaction_watermark as transaction_watermark
    from pyhudi_core.source_transactions import transactions as transactions
    from pyhudi_core.statements.run import sql as sql
    from pyhudi_core.table import HudiTable as HudiTable
    from pyhudi_core.table_transactions import TablesSnapshot as TablesSnapshot
    from pyhudi_core.table_transactions import TableTransaction as TableTransaction
    from pyhudi_core.table_transactions import snapshot as snapshot
    from pyhudi_core.table_transactions import transaction as transaction
    from pyhudi_core.timeline.active import Timeline as Timeline
    from pyhudi_core.transaction.requested_rollbacks import Rollback as Rollback
    from pyhudi_core.transaction.status import CommitStatus as CommitStatus
    from pyhudi_core.upkeep_run import UpkeepReport as UpkeepReport
    from pyhudi_core.upkeep_run import upkeep as upkeep
    from pyhudi_core.validators import Candidate as Candidate
    from pyhudi_core.validators import FoundRows as FoundRows
    from pyhudi_core.validators import in_range as in_range
    from pyhudi_core.validators import not_null as not_null
    from pyhudi_core.validators import row_count as row_count
    from pyhudi_core.validators import satisfies as satisfies
    from pyhudi_core.validators import unique as unique
    from pyhudi_core.write.handle import Write as Write
    from pyhudi_core.write.merging import Merge as Merge
    from pyhudi_core.write.merging import MergePlan as MergePlan
    from pyhudi_core.write.result import Commit as Commit
    from pyhudi_core.write.result import CommitStats as CommitStats
    from pyhudi_core.write.result import CommitVerdict as CommitVerdict

__version__ = "0.1.0"

_HOMES = {
    "Action": "model.instant",
    "Batch": "consuming",
    "Bootstrap": "importing.bootstrap",
    "Candidate": "validators",
    "CheckReport": "doctor",
    "Checkpoint": "consuming",
    "Commit": "write.result",
    "CommitMetadata": "model.commit",
    "CommitRequirement": "conflicts.requirement",
    "CommitStats": "write.result",
    "CommitStatus": "transaction.status",
    "CommitVerdict": "write.result",
    "Consumer": "consuming",
    "FileGroupAt": "conflicts.requirement",
    "Finding": "doctor",
    "FoundRows": "validators",
    "HudiError": "errors",
    "HudiTable": "table",
    "Instant": "model.instant",
    "Lake": "lake_tables",
    "LatestInstantIs": "conflicts.requirement",
    "Limits": "doctor",
    "NoCommitAfter": "conflicts.requirement",
    "Merge": "write.merging",
    "MergePlan": "write.merging",
    "OperationType": "model.operation",
    "PropertyIs": "conflicts.requirement",
    "RecordMerger": "merge",
    "RecoveryPlan": "importing.recovery_plan",
    "Rollback": "transaction.requested_rollbacks",
    "Scan": "read.scan",
    "SchemaIs": "conflicts.requirement",
    "ServicePlan": "services.service",
    "ServiceResult": "services.service",
    "Size": "read.sizes",
    "State": "model.instant",
    "TableConfig": "model.properties",
    "TableRules": "model.table_rules",
    "TableService": "services.service",
    "TableSize": "read.sizes",
    "Timeline": "timeline.active",
    "UpkeepReport": "upkeep_run",
    "UpkeepRules": "services.upkeep_rules",
    "Write": "write.handle",
    "WriteStat": "model.commit",
    "bootstrap": "importing.bootstrap",
    "check_table": "opening",
    "commit_for": "orchestration.remote_write",
    "create_table": "opening",
    "drop_table": "opening",
    "held_transactions": "source_transactions",
    "in_range": "validators",
    "lake": "lake_tables",
    "not_null": "validators",
    "open_table": "opening",
    "plan_recovery": "importing.recovery",
    "recover": "importing.recovery",
    "register_merger": "merge",
    "registered_mergers": "merge",
    "rename_columns": "engine.renaming",
    "row_count": "validators",
    "satisfies": "validators",
    "snapshot": "table_transactions",
    "sql": "statements.run",
    "table_exists": "opening",
    "transaction": "table_transactions",
    "transaction_watermark": "source_transactions",
    "transactions": "source_transactions",
    "unique": "validators",
    "unregister_merger": "merge",
    "upkeep": "upkeep_run",
}
"""The module of each public name."""

_NAMES = (*sorted(_HOMES), "errors")
if not TYPE_CHECKING:  # type checkers take the names of the imports above
    __all__ = list(_NAMES)

__getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*_NAMES, "__version__"})


# Public names report the module `pyhudi`. It is there for whoever looks them up in `sys.modules`, as cloudpickle does.
import pyhudi.errors as _public_errors  # noqa: E402, F401
