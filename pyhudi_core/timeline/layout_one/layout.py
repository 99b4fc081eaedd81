"""The active timeline of layout 1: names without completion times, commits in JSON.

Format reference: versions 1.1 to 1.3. Instants are files of ``.hoodie`` itself. Commits, deltacommits and replacecommits are JSON, pending and
completed; every other file is Avro, as in layout 2. A clustering is a pending ``replacecommit`` whose requested file has a plan of a clustering.

Version 6 orders everything by requested times: time travel, incremental queries and file slices. So the completion time of an instant is its
requested time here, too. The modification time of a file is its real completion time, but a copy of the table loses it, so pyhudi does not use it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar

from pyhudi_core.errors import CorruptTimelineError, DataError, ObjectNotFoundError
from pyhudi_core.formats.avro.container import MAGIC, SYNC_SIZE, decode_record, encode_record
from pyhudi_core.model.bounded_json import parse_json
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.file_names import split
from pyhudi_core.model.instant import DATA_ACTIONS, Action, Instant, State, parse_file_name
from pyhudi_core.storage.base import Storage
from pyhudi_core.timeline.history import ArchivedTimeline
from pyhudi_core.timeline.layout_one.archived_logs import ArchivedLogs
from pyhudi_core.timeline.layouts import Names, TimelineLayout

_FOLDER_OF_LAYOUT_TWO = "timeline"
_HEARTBEATS = ".hoodie/.heartbeat"
_NO_NONCE = bytes(SYNC_SIZE)


class LayoutOne(TimelineLayout):
    """Layout 1 of the timeline."""

    in_table: ClassVar[tuple[str, str]] = (".hoodie", "archived")
    is_older: ClassVar[bool] = True

    def parse(self, name: str) -> Instant | None:
        found = parse_file_name(name)
        if found is None or (found.is_completed and found.completion_time is not None):
            return None  # an instant of layout 2
        return replace(found, completion_time=found.requested_time) if found.is_completed else found

    def file_name(self, instant: Instant) -> str:
        if instant.is_completed:
            return f"{instant.requested_time}.{instant.action.completes_as}"
        if instant.action is Action.CLUSTERING:
            return f"{instant.requested_time}.{Action.REPLACECOMMIT}.{instant.state}"
        return instant.file_name()

    def instants(self, storage: Storage, path: str, listed: Names) -> list[Instant]:
        found = [instant for instant in map(self.parse, listed[0]) if instant is not None]
        if _FOLDER_OF_LAYOUT_TWO in listed[1]:
            files = {(instant.group, instant.state) for instant in found}
            _refuse_half_an_upgrade(storage, f"{path}/{_FOLDER_OF_LAYOUT_TWO}", files)
        done = {i.requested_time for i in found if i.is_completed}
        replacing = {i.requested_time for i in found if i.action is Action.REPLACECOMMIT} - done
        clusterings = {time for time in replacing if self._is_clustering(storage, path, time)}
        return [replace(i, action=Action.CLUSTERING) if _is_one_of(i, clusterings) else i for i in found]

    def decode(self, data: bytes, instant: Instant, path: str) -> CommitMetadata:
        if data.startswith(MAGIC):  # an archived instant (`ArchivedLogs`)
            return super().decode(data, instant, path)
        return CommitMetadata.from_avro(self.content(data, instant, path))

    def content(self, data: bytes, instant: Instant, path: str) -> dict[str, Any]:
        """Return the fields of a commit's JSON, with the names and types of the Avro record of layout 2.

        Raises `CorruptTimelineError` for other types.
        """
        try:
            content = parse_json(data, most_bytes=None)
            if not isinstance(content, dict):
                raise ValueError("it is no JSON object")
            for key in ("partitionToWriteStats", "partitionToReplaceFileIds"):
                (content.get(key) or {}).pop("null", None)  # a null key of a Java map
            encode_record(
                CommitMetadata(None).record_name(instant.action), content, sync_marker=_NO_NONCE, is_written=False
            )
            CommitMetadata.from_avro(content)
            return content
        except (ValueError, TypeError, RecursionError, AttributeError, DataError) as error:
            raise CorruptTimelineError(
                f"The completed file of a commit is no JSON of a commit: {error!s:.200}",
                path=path,
                instant=instant.requested_time,
                hint="The file is damaged or was not written by Hudi; restore it from a copy, or roll the instant back",
            ) from error

    def history(self, storage: Storage, path: str, raised: bool) -> ArchivedTimeline:
        return ArchivedLogs(storage, path)

    def first_unsettled(self, instants: Iterable[Instant]) -> str | None:
        """Return the requested time of the first pending write. Pending services do not count, because they change no rows."""
        return min((i.requested_time for i in instants if i.is_pending and i.action in DATA_ACTIONS), default=None)

    def follows(self, stat: WriteStat) -> bool:
        """Return True only for base files: the previous commit of a log is the time in its name, which may be the time of a pending compaction."""
        return not split(stat.path)[1].startswith(".")

    def refuse_false_time(self, instant: Instant, table: str, path: str, *, utc: bool) -> None:
        """Do nothing, because names have no completion time."""

    def _is_clustering(self, storage: Storage, path: str, requested_time: str) -> bool:
        """Say whether a pending replacecommit is a clustering; without a requested file it counts as a write."""
        name = f"{path}/{self.file_name(Instant(requested_time, Action.REPLACECOMMIT, State.REQUESTED))}"
        try:
            data = storage.get(name)
        except ObjectNotFoundError:
            return False
        plan: dict[str, Any] = decode_record(data, "HoodieRequestedReplaceMetadata", path=name) if data else {}
        return plan.get("clusteringPlan") is not None


def _is_one_of(instant: Instant, clusterings: set[str]) -> bool:
    return instant.action is Action.REPLACECOMMIT and instant.requested_time in clusterings


def _refuse_half_an_upgrade(storage: Storage, path: str, known: set[tuple[tuple[str, Action], State]]) -> None:
    """Raise `CorruptTimelineError` if a folder of layout 2 has instants that are missing here: Hudi's upgrade moves them one by one, and then changes
    the properties.

    Pyhudi's upgrade moves no instant; the instants that it adds have a heartbeat until the upgrade has ended.
    """
    found = ((name, parse_file_name(name)) for name in storage.list_names(path)[0])
    completed = ((name, i) for name, i in found if i is not None and i.is_completed)
    alone = {i.requested_time: name for name, i in completed if (i.group, i.state) not in known}
    moved = next((name for time, name in alone.items() if storage.head(f"{_HEARTBEATS}/{time}") is None), None)
    if moved is not None:
        raise CorruptTimelineError(
            "An upgrade of the table has begun and has not ended: instants are in the folder of the newer layout, and hoodie.properties"
            " names the older one",
            table=storage.location,
            path=f"{path}/{moved}",
            hint="Let the release of Hudi that began it end the upgrade, with its next write or `upgrade_table`, or restore the table from a copy. If"
            " this package lowered the table and was killed, `pyhudi downgrade LOCATION --to 6` ends that.",
        )
