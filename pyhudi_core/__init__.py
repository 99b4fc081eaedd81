"""Apache Hudi tables, version 8 of the format, in Python: on Spark through PySpark, and on Arrow without Spark."""

from pyhudi_core import errors
from pyhudi_core.conflicts.requirement import (
    CommitRequirement,
    FileGroupAt,
    LatestInstantIs,
    NoCommitAfter,
    PropertyIs,
    SchemaIs,
)
from pyhudi_core.doctor import Limits
from pyhudi_core.errors import HudiError
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.opening import check_table, create_table, open_table
from pyhudi_core.options import options_for_open
from pyhudi_core.read.scan import Scan
from pyhudi_core.read.sizes import Size, TableSize
from pyhudi_core.services.service import ServicePlan, ServiceResult, TableService
from pyhudi_core.services.transactions import held_transactions, transaction_watermark, transactions
from pyhudi_core.table import HudiTable
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.requested_rollbacks import Rollback
from pyhudi_core.transaction.status import CommitStatus
from pyhudi_core.write.handle import Write
from pyhudi_core.write.operations import commit_with_retries
from pyhudi_core.write.result import Commit, CommitStats, CommitVerdict

__version__ = "0.1.0"

__all__ = [
    "Action",
    "Commit",
    "CommitMetadata",
    "CommitRequirement",
    "CommitStats",
    "CommitStatus",
    "CommitVerdict",
    "FileGroupAt",
    "HudiError",
    "HudiTable",
    "Instant",
    "LatestInstantIs",
    "Limits",
    "NoCommitAfter",
    "OperationType",
    "PropertyIs",
    "Rollback",
    "Scan",
    "SchemaIs",
    "ServicePlan",
    "ServiceResult",
    "Size",
    "State",
    "TableConfig",
    "TableService",
    "TableSize",
    "Timeline",
    "Write",
    "WriteStat",
    "check_table",
    "commit_with_retries",
    "create_table",
    "errors",
    "held_transactions",
    "open_table",
    "options_for_open",
    "transaction_watermark",
    "transactions",
]
