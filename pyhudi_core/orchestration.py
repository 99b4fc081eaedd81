"""What a package needs that runs tables for its users under an orchestrator, as ``pyhudi_dagster`` does; its users need none of these names.

They are as stable as the names of ``pyhudi``: the table services that there are, before a table is opened; options checked before a run; a write that
retries, and asks before it commits; and the half of `pyhudi.commit_for` that asks another process for a write and permits its commit;
rows of any kind as one Arrow table; the tables below a folder; which names of options hold secrets; which options would have kept what has expired;
and the error for an extra that is not installed. Names are imported on first use.
"""

from typing import TYPE_CHECKING

from pyhudi_core.late import late_names

if TYPE_CHECKING:
    from pyhudi_core.engine.local import as_table
    from pyhudi_core.engine.pandas_frames import is_pandas
    from pyhudi_core.errors import from_extra
    from pyhudi_core.lake import tables_below
    from pyhudi_core.lock.fitting import refuse_unfit_options
    from pyhudi_core.model.masking import is_secret
    from pyhudi_core.options import options_for_open
    from pyhudi_core.read.expired import how_to_keep_more
    from pyhudi_core.remote import WriteRequest, open_permit, schema_text
    from pyhudi_core.services.registry import service_kinds
    from pyhudi_core.transaction.permit import Permit
    from pyhudi_core.write.operations import commit_with_retries

_HOMES = {
    "Permit": "transaction.permit",
    "WriteRequest": "remote",
    "as_table": "engine.local",
    "commit_with_retries": "write.operations",
    "from_extra": "errors",
    "how_to_keep_more": "read.expired",
    "is_pandas": "engine.pandas_frames",
    "is_secret": "model.masking",
    "open_permit": "remote",
    "options_for_open": "options",
    "refuse_unfit_options": "lock.fitting",
    "schema_text": "remote",
    "service_kinds": "services.registry",
    "tables_below": "lake",
}

__all__ = [
    "Permit",
    "WriteRequest",
    "as_table",
    "commit_with_retries",
    "from_extra",
    "how_to_keep_more",
    "is_pandas",
    "is_secret",
    "open_permit",
    "options_for_open",
    "refuse_unfit_options",
    "schema_text",
    "service_kinds",
    "tables_below",
]

__getattr__ = late_names(__name__, _HOMES, "pyhudi_core")


def __dir__() -> list[str]:
    return sorted(__all__)
