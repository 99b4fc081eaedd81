"""The file groups of a table as one reader sees them: the newest visible slice of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.file_groups.listing import FileListing
from pyhudi_core.file_groups.slice import BaseFile, FileSlice
from pyhudi_core.file_groups.visibility import Visibility
from pyhudi_core.model.file_names import BaseFileName, parse_data_file


@dataclass(slots=True)
class FileGroupView:
    """Slices by partition, worked out when first asked for and then kept. ``table`` is for messages."""

    listing: FileListing
    visibility: Visibility
    table: str
    _slices: dict[str, tuple[FileSlice, ...]] = field(default_factory=dict)

    def partitions(self) -> tuple[str, ...]:
        """Every partition folder, also those without visible files; sorted."""
        return self.listing.partitions()

    def slices(self, partition: str) -> tuple[FileSlice, ...]:
        """The newest visible slice of each file group of one partition, sorted by file id."""
        if partition not in self._slices:
            self._slices[partition] = self._assemble(partition)
        return self._slices[partition]

    def all_slices(self, partitions: Iterable[str] | None = None) -> list[FileSlice]:
        """The same for several partitions (all by default)."""
        chosen = self.partitions() if partitions is None else partitions
        return [piece for partition in chosen for piece in self.slices(partition)]

    def _assemble(self, partition: str) -> tuple[FileSlice, ...]:
        groups: dict[str, list[BaseFile]] = {}
        for info in self.listing.files(partition):
            name = parse_data_file(info.path.rpartition("/")[2])
            if name is None:
                continue
            if not isinstance(name, BaseFileName) or name.extension != "parquet":
                self._refuse_unless_invisible(name.requested_time, info.path)
                continue
            groups.setdefault(name.file_id, []).append(BaseFile(partition, name, info.size))
        visible = (
            self._newest(files)
            for file_id, files in sorted(groups.items())
            if (partition, file_id) not in self.visibility.replaced
        )
        return tuple(piece for piece in visible if piece is not None)

    def _newest(self, files: list[BaseFile]) -> FileSlice | None:
        for base in sorted(files, key=lambda file: file.name.requested_time, reverse=True):
            if self.visibility.admits(base.name.requested_time, base.path):
                return FileSlice(base, self.visibility.stat(base.name.requested_time, base.path))
        return None

    def _refuse_unless_invisible(self, requested_time: str, path: str) -> None:
        if path.endswith(".cdc"):
            return
        if self.visibility.admits(requested_time, path) or self.visibility.is_archived(requested_time):
            raise UnsupportedTableError(
                "The table holds log files or base files other than Parquet, which this release does not read",
                table=self.table,
                path=path,
                hint="Read it with Hudi, or compact it into Parquet base files first.",
            )
