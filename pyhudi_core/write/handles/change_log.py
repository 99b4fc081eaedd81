"""The change log of one rewritten base file: made with the first change, and named in the base file's write stat (Hudi's ``HoodieCDCLogger``)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from pyhudi_core.formats.log.changes import DELETE, INSERT, UPDATE, ChangeForm, ChangeWriter
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.file_names import LogFileName, join
from pyhudi_core.storage.base import OutputFile
from pyhudi_core.transaction import markers
from pyhudi_core.write.handles.base import HandleContext, WrittenFile
from pyhudi_core.write.handles.new_file import NewFile


@dataclass(slots=True)
class ChangeLog:
    """The changes of a rewrite to the rows of ``file``. Its name has the base file's file id and write token."""

    context: HandleContext
    file: NewFile
    form: ChangeForm
    _output: OutputFile | None = None
    _writer: ChangeWriter | None = None

    @property
    def path(self) -> str:
        """Return the path, relative to the table."""
        name = self.file.name
        log = LogFileName(name.file_id, name.requested_time, 1, name.write_token, is_cdc=True)
        return join(self.file.partition, str(log))

    def inserted(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Log new rows."""
        self._write(INSERT, None, rows)

    def updated(self, before: pa.Table | pa.RecordBatch, after: pa.Table | pa.RecordBatch) -> None:
        """Log updates: row n of ``before`` became row n of ``after``."""
        self._write(UPDATE, before, after)

    def deleted(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Log deleted rows."""
        self._write(DELETE, rows, None)

    def close(self, written: WrittenFile) -> WrittenFile:
        """Publish the change log; return the base file with the change log in its stat."""
        if self._writer is None or self._output is None:
            return written
        self._writer.finish()
        size = self._output.close().size
        self._output = None
        stat: WriteStat = replace(written.stat, change_logs=(self.path,), change_log_sizes=(size,))
        return replace(written, stat=stat)

    def abandon(self) -> None:
        """Give up what is not published."""
        if self._output is not None:
            self._output.abort()

    def _write(
        self, op: str, before: pa.Table | pa.RecordBatch | None, after: pa.Table | pa.RecordBatch | None
    ) -> None:
        rows = after if before is None else before
        if rows is None or not rows.num_rows:
            return
        if self._writer is None:
            storage = self.context.runtime.storage
            self.context.refuse_end()
            markers.create(storage, self.context.settings.requested_time, self.path, "CREATE")
            self._output = self.context.output_at(self.path)
            self._writer = ChangeWriter(self._output.stream, self.form)
        self._writer.write(op, before, after)
