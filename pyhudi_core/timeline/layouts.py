"""How a timeline is stored: names, contents, and the archived part. Hudi has two layouts; the properties of a table name its layout.

`TimelineLayout` is layout 2, for versions 8 and 9 (specification, "Timeline"). Layout 1, for versions up to 6, is a subclass in ``layout_one/``.
`TimelineFolder.of` chooses the layout when a table is opened; later code does not check a version.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from pyhudi_core.errors import CorruptTimelineError, SnapshotExpiredError
from pyhudi_core.lazy import lazy_call
from pyhudi_core.model.commit import READ_AS, CommitMetadata, WriteStat
from pyhudi_core.model.instant import Instant, parse_file_name
from pyhudi_core.storage.base import Storage
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.history import ArchivedTimeline

if TYPE_CHECKING:
    from pyhudi_core.formats.avro.container import decode_record
else:
    decode_record = lazy_call("pyhudi_core.formats.avro.container", "decode_record")

LOWERED = "pyhudi.lowered"
"""A file in the timeline folder. It says that the table was given version 6, and that the instants here are being removed."""

Names = tuple[tuple[str, ...], tuple[str, ...]]
"""The names of files and folders in a folder."""


class TimelineLayout:
    """Layout 2: the name of a completed file has its completion time, and its content is Avro.

    Attributes:
        in_table: the default folders of the timeline and, below it, of the archived timeline, for tables without properties for them.
        is_older: whether the metadata table has the form of versions up to 6.
    """

    in_table: ClassVar[tuple[str, str]] = (".hoodie/timeline", "history")
    is_older: ClassVar[bool] = False

    def parse(self, name: str) -> Instant | None:
        """Parse the name of a timeline file; None for other names, which readers skip."""
        return parse_file_name(name)

    def file_name(self, instant: Instant) -> str:
        """Return the name of an instant's file."""
        return instant.file_name()

    def instants(self, storage: Storage, path: str, listed: Names) -> list[Instant]:
        """Return the instants of a listing of the folder ``path``.

        Raises `SnapshotExpiredError` if the table was lowered to version 6 after its properties were read: its timeline is then in another folder,
        and this folder is being removed.
        """
        if LOWERED in listed[0]:
            _refuse_lowered(storage, path)
        return [instant for instant in map(parse_file_name, listed[0]) if instant is not None]

    def decode(self, data: bytes, instant: Instant, path: str) -> CommitMetadata:
        """Return the content of the completed file of a commit. Raises `CorruptionError` for other bytes."""
        return CommitMetadata.from_avro(decode_record(data, READ_AS, path=path))

    def history(self, storage: Storage, path: str, raised: bool) -> ArchivedTimeline:
        """Return the archived timeline in a folder; for ``raised`` see `ArchivedTimeline`."""
        return ArchivedTimeline(storage, path, raised)

    def first_unsettled(self, instants: Iterable[Instant]) -> str | None:
        """Return the requested time at which a reader of changes must stop, because a commit may still appear from there on; None if no commit can
        appear.

        In layout 2, completion times ascend, so no commit appears in the past, and this returns None.
        """
        return None

    def follows(self, stat: WriteStat) -> bool:
        """Say whether the previous commit that a file names had completed before the file was written."""
        return True

    def refuse_false_time(self, instant: Instant, table: str, path: str, *, utc: bool) -> None:
        """Raise `CorruptTimelineError` for a completed instant whose position on the timeline is unknown."""
        if instant.completion_time is None:
            raise CorruptTimelineError(
                "The completed instant has no completion time in its name: the table comes from before version 8",
                table=table,
                path=path,
                instant=instant.requested_time,
                hint="Upgrade the table to version 8 with Hudi's own tools first.",
            )
        if utc and instant.completion_time <= instant.requested_time:
            raise CorruptTimelineError(
                "The instant's completion time is not after its requested time, so its place among the others is not known",
                table=table,
                path=path,
                instant=instant.requested_time,
                hint="No writer of version 8 makes such a name. Roll the table back to before it, or give the file its right name again.",
            )


def _refuse_lowered(storage: Storage, path: str) -> None:
    """Raise `SnapshotExpiredError` if the table no longer has this layout. The table has it again if it was raised again."""
    if properties_file.read(storage).get("hoodie.timeline.layout.version", "").strip() == "1":
        raise SnapshotExpiredError(
            "The table got version 6 after this began, and its timeline is in another folder now",
            table=storage.location,
            path=path,
            hint="Do it again: the next call reads the table as it is now.",
        )


LAYOUT_TWO = TimelineLayout()
