"""The merge law (`law`): which of two versions of a row wins. Users can register their own mergers (docs/merging.md)."""

from pyhudi_core.merge.merger_contract import LAWS, Evidence, RecordMerger
from pyhudi_core.merge.record_merger import register_merger, registered_mergers, unregister_merger

__all__ = ["LAWS", "Evidence", "RecordMerger", "register_merger", "registered_mergers", "unregister_merger"]
