"""Which handle writes a file group: chosen by the plan and by the file group's newest slice."""

from __future__ import annotations

from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.write.handles.append import AppendHandle
from pyhudi_core.write.handles.base import HandleContext, WriteHandle
from pyhudi_core.write.handles.create import CreateHandle
from pyhudi_core.write.handles.merge import MergeHandle
from pyhudi_core.write.plan import Bucket


def handle_for(context: HandleContext, bucket: Bucket) -> WriteHandle:
    """The handle of a bucket. Raises `UnsupportedTableError` for a slice that this release does not write on."""
    if bucket.appends:
        return AppendHandle(context, bucket, bucket.base or FileSlice(None))
    if bucket.base is None:
        return CreateHandle(context, bucket)
    if bucket.base.base is None or bucket.base.logs:
        raise _unsupported("a file group with log files", bucket)
    return MergeHandle(context, bucket, bucket.base.base)


def _unsupported(feature: str, bucket: Bucket) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"The table has {feature}, which this release does not write",
        path=bucket.base.path if bucket.base is not None else bucket.partition or None,
        hint="It can be read here; write to it with Hudi. Nothing was changed.",
    )
