"""Storage on a POSIX disk.

Invariants: an object appears completely or not at all (temporary file, fsync, rename or link); `put_if_absent` is link(2); nothing outside the root
is read or written, not even through a symbolic link. Disks have no If-Match, so `put_if_match` is refused (see `Capabilities`). `delete_if_match`
excludes other processes of this machine that use this package (flock on the folder).
"""

from __future__ import annotations

import builtins
import fcntl
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter

import pyarrow as pa

from pyhudi_core.errors import ObjectNotFoundError, PreconditionFailedError, StorageError, UnsafePathError
from pyhudi_core.storage import local_files as files
from pyhudi_core.storage.base import Capabilities, Folder, ObjectInfo, Storage, StorageSpec
from pyhudi_core.storage.kind import StorageKind, allow_sources, read_flag, refuse_unknown, storage_option
from pyhudi_core.storage.local_files import LocalInputFile, LocalOutputFile, info_of
from pyhudi_core.storage.own_part import is_other_table
from pyhudi_core.storage.paths import (
    ALLOW_SOURCES,
    Location,
    check_path,
    check_prefix,
    parse_location,
    parse_sources,
    sources_text,
)
from pyhudi_core.storage.refusals import refusal, refuse_large

_SWEPT = 4
_MOST_FOLDERS = 512
"""The maximum number of folders that are remembered as having no link in their paths."""
_PATH = attrgetter("path")
_CAPABILITIES = Capabilities(
    put_if_absent=True, one_clock=True, temporaries=True, cheap_names=True, renames_folders=True
)


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """Storage options of a disk."""

    allow_sources: str = allow_sources()
    fsync: bool = storage_option(
        "fsync", True,
        "Wait until the disk has stored each write. If false, writes survive the end of the process but not a power failure.")  # fmt: skip

    @classmethod
    def parse(cls, given: Mapping[str, str], location: str) -> LocalOptions:
        """Read storage options. Raises `UnknownOptionError` and `InvalidOptionError`."""
        refuse_unknown(cls, given, location)
        return cls(sources_text(parse_sources(given.get(ALLOW_SOURCES, ""))), read_flag(given, "fsync", True))


class LocalStorage(Storage):
    """A folder of a disk.

    Args:
        root: the folder, as a path or a ``file:`` location; it need not exist yet.
        fsync: wait until the disk has stored each write. Without it, writes survive the end of the process but not a power failure.
        allowed_sources: see `Storage.allowed_sources`.
    """

    def __init__(self, root: str, *, fsync: bool = True, allowed_sources: tuple[str, ...] = ()) -> None:
        self._location = parse_location(root).path
        self._fsync = fsync
        self._allowed_sources = allowed_sources
        self._real_root = os.path.realpath(self._location)
        self._below_root = self._real_root.rstrip("/") + "/"
        self._unsynced: LocalStorage | None = None if fsync else self
        self._without_links: dict[str, tuple[int, int]] = {}

    @property
    def location(self) -> str:
        return self._location

    @property
    def real_location(self) -> str:
        return self._real_root

    def is_at(self, location: str) -> bool:
        found = parse_location(location)
        return found.scheme == "file" and os.path.realpath(found.path) == self._real_root

    @property
    def capabilities(self) -> Capabilities:
        return _CAPABILITIES

    @property
    def allowed_sources(self) -> tuple[str, ...]:
        return self._allowed_sources

    def __repr__(self) -> str:
        return f"LocalStorage({self._location!r})"

    def spec(self) -> StorageSpec:
        options = {"fsync": "" if self._fsync else "false", ALLOW_SOURCES: sources_text(self._allowed_sources)}
        return StorageSpec(self._location, {name: value for name, value in options.items() if value})

    def without_fsync(self) -> Storage:
        if self._unsynced is None:
            self._unsynced = LocalStorage(self._location, fsync=False, allowed_sources=self._allowed_sources)
        return self._unsynced

    def get(self, path: str) -> bytes:
        with self._errors(path):
            descriptor, found = files.open_file(self._resolve(path, follow=True))
            try:
                refuse_large(found.st_size, self._location, path)
                return files.read_all(descriptor, found.st_size)
            finally:
                os.close(descriptor)

    def head(self, path: str) -> ObjectInfo | None:
        with self._errors(path):
            try:
                found = os.stat(self._resolve(path))
            except (FileNotFoundError, NotADirectoryError):
                return None
            return info_of(path, found) if stat.S_ISREG(found.st_mode) else None

    def list(self, prefix: str, start_after: str = "") -> builtins.list[ObjectInfo]:
        check_prefix(prefix, self._location)
        top = prefix.rpartition("/")[0]
        found: list[ObjectInfo] = []
        pending = [top]
        while pending:
            folder = self._children(pending.pop())
            found.extend(o for o in folder.objects if o.path.startswith(prefix) and o.path > start_after)
            pending.extend(f for f in folder.folders if _may_hold(f + "/", prefix, start_after))
        return sorted(found, key=lambda info: info.path)

    def list_folder(self, folder: str) -> Folder:
        return self._children(folder)

    def list_some(self, folder: str, most: int) -> builtins.list[ObjectInfo]:
        return list(self._children(folder, most).objects)

    def list_names(self, folder: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        absolute = self._folder(folder)
        base = folder + "/" if folder else ""
        found: tuple[builtins.list[str], builtins.list[str]] = ([], [])
        with self._errors(folder), suppress(FileNotFoundError, NotADirectoryError), os.scandir(absolute) as entries:
            for entry in entries:
                name = entry.name
                is_plain = entry.is_file(follow_symlinks=False)
                if not is_plain and entry.is_symlink():
                    self._check_link(entry, base + name)
                if name[0] != "." or not files.is_hidden(name):
                    is_folder = not is_plain and entry.is_dir()
                    if not is_plain and not is_folder and not entry.is_file():
                        self._look_at(entry, base + name)
                    found[is_folder].append(name)
        return tuple(sorted(found[0])), tuple(sorted(found[1]))

    def list_hidden(self, folder: str) -> tuple[ObjectInfo, ...]:
        absolute = self._folder(folder)
        with self._errors(folder), suppress(FileNotFoundError, NotADirectoryError), os.scandir(absolute) as entries:
            hidden = [
                entry for entry in entries if files.is_hidden(entry.name) and entry.is_file(follow_symlinks=False)
            ]
            base = folder + "/" if folder else ""
            return tuple(info_of(base + entry.name, entry.stat()) for entry in sorted(hidden, key=lambda e: e.name))
        return ()

    def put(self, path: str, data: bytes) -> ObjectInfo:
        with self._errors(path):
            return self._publish(path, data, files.publish_replacing)

    def put_if_absent(self, path: str, data: bytes) -> ObjectInfo:
        with self._errors(path):
            try:
                return self._publish(path, data, files.publish_if_absent)
            except FileExistsError:
                self._refuse_folder(path, target := self._resolve(path))
                if os.path.islink(target) and not os.path.exists(target):
                    raise self._unsafe("A symbolic link leads to nothing", path) from None
                raise PreconditionFailedError("The object already exists", table=self._location, path=path) from None

    def put_if_match(self, path: str, data: bytes, etag: str) -> ObjectInfo:
        check_path(path, self._location)
        raise StorageError(
            "A disk cannot replace an object on condition of its tag",
            table=self._location,
            path=path,
            hint="Ask capabilities.put_if_match first, and use numbered files made with put_if_absent here.",
        )

    def delete(self, path: str) -> None:
        with self._errors(path):
            target = self._resolve(path)
            with suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(target)
                files.remove_checksum(target)

    def sweep_temporaries(self, folder: str, older_than_ms: int, now_ms: int, deep: bool = True) -> builtins.list[str]:
        top = self._folder(folder)
        before_ns = (now_ms - older_than_ms) * 1_000_000
        swept: builtins.list[str] = []
        with self._errors(folder):
            for parent, below, names in os.walk(top):  # follows no links
                inside = "" if parent == self._real_root else os.path.relpath(parent, self._real_root)
                other = is_other_table(inside, below)
                below[:] = below if deep and not other else []
                own = [] if other else names
                paths = [os.path.join(parent, name) for name in own if files.is_temporary(name)]
                swept.extend(path for path in paths if files.remove_if_abandoned(path, before_ns))
        return sorted(os.path.relpath(path, self._real_root) for path in swept)

    def discard_unfinished(self, paths: Iterable[str]) -> None:
        named: dict[str, set[str]] = {}
        for path in paths:
            folder, _, name = path.rpartition("/")
            named.setdefault(folder, set()).add(name)
        for folder, names in sorted(named.items()):
            with self._errors(folder):
                for temporary in files.temporaries_of(self._folder(folder), names):
                    files.remove_quietly(temporary)

    def remove_empty_folders(self, folder: str) -> None:
        with self._errors(folder):
            for parent, _, _ in os.walk(self._resolve(folder), topdown=False):
                with suppress(OSError):
                    os.rmdir(parent)

    def rename_folder(self, folder: str, new: str) -> None:
        with self._errors(folder):
            source, target = self._resolve(folder), self._resolve(new)
            files.make_folders(os.path.dirname(target), self._fsync)
            try:
                os.rename(source, target)  # replaces an empty folder
            except OSError as error:
                if os.path.lexists(target) and os.path.isdir(source):
                    raise PreconditionFailedError(
                        "Something is at the new path of the folder", table=self._location, path=new
                    ) from error
                raise
        for path in (folder, new):
            self._settle(path, os.path.join(self._real_root, path))

    def delete_if_match(self, path: str, etag: str) -> None:
        with self._errors(path):
            target = self._resolve(path)
            try:
                guard = os.open(os.path.dirname(target), os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
            except (FileNotFoundError, NotADirectoryError):
                raise self._not_as_expected(path) from None
            try:
                fcntl.flock(guard, fcntl.LOCK_EX)
                found = self.head(path)
                if found is None or found.etag != etag:
                    raise self._not_as_expected(path)
                os.unlink(target)
            finally:
                os.close(guard)

    def open_input(self, path: str) -> pa.NativeFile:
        with self._errors(path):
            target = self._resolve(path, follow=True)
            if os.path.isdir(target):
                raise IsADirectoryError
            return LocalInputFile.of(target, self._location, path)

    def open_output(self, path: str) -> LocalOutputFile:
        with self._errors(path):
            target = self._resolve(path)
            self._make_room(path, target)
            return LocalOutputFile(self._location, path, target, self._fsync)

    def _resolve(self, path: str, *, follow: bool = False) -> str:
        """Return the absolute path of an object; with ``follow``, without symbolic links.

        Raises `UnsafePathError` if the path is not below the root, or if a part of it is neither a file nor a folder.
        """
        target = self._below_root + check_path(path, self._location)
        files.refuse_long(target)
        if not self._has_link(target):
            return target
        real = os.path.realpath(target)
        self._refuse_leaving(path, real)
        with suppress(FileNotFoundError, NotADirectoryError):
            files.refuse_special(os.stat(real).st_mode)
        return real if follow else target

    def _folder(self, folder: str) -> str:
        """Return the absolute path of a folder. Raises as every call, also for a name that a disk cannot have."""
        with self._errors(folder):
            return self._resolve(folder) if folder else self._real_root

    def _has_link(self, target: str) -> bool:
        """Say whether a part of a path below the root is a symbolic link. The root has no link, and a path below a missing folder is missing, too.

        Each part of a folder's path is checked once. Later, the path has no link as long as it leads to the same folder (device and inode).
        """
        folder = target.rpartition("/")[0]
        known = self._without_links.get(folder)
        try:
            if known is None or known != _identity(os.lstat(folder)):
                end = len(self._real_root)
                while (end := target.find("/", end + 1)) != -1:
                    found = os.lstat(target[:end])
                    if stat.S_ISLNK(found.st_mode):
                        return True
                    files.refuse_special(found.st_mode)
                    if end == len(folder) and stat.S_ISDIR(found.st_mode):
                        self._remember(folder, found)
            mode = os.lstat(target).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return False
        files.refuse_special(mode)
        return stat.S_ISLNK(mode)

    def _remember(self, folder: str, found: os.stat_result) -> None:
        """Remember a folder whose path contains no link."""
        if len(self._without_links) >= _MOST_FOLDERS:
            self._without_links.clear()
        self._without_links[folder] = _identity(found)

    def _refuse_leaving(self, path: str, real: str) -> None:
        if real != self._real_root and not real.startswith(self._real_root.rstrip("/") + "/"):
            raise self._unsafe(
                "A symbolic link leads out of the table's folder",
                path,
                "Remove the link, or copy what it points to into the table's folder.",
            )

    def _unsafe(
        self, what: str, path: str, hint: str = "Remove it; `pyhudi check` then says what is missing."
    ) -> UnsafePathError:
        return UnsafePathError(what, table=self._location, path=path, hint=hint)

    def _refuse_folder(self, path: str, target: str) -> None:
        if os.path.isdir(target):
            raise StorageError("A folder has the path of the object", table=self._location, path=path)

    def _make_room(self, path: str, target: str) -> None:
        files.make_folders(os.path.dirname(target), self._fsync)
        self._refuse_folder(path, self._resolve(path))

    def _publish(self, path: str, data: bytes, publish: Callable[[str, str], None]) -> ObjectInfo:
        """Write the bytes to a temporary file in the same folder, then rename it to the target."""
        for _ in range(_SWEPT):
            try:
                target, temporary = self._write_temporary(path, data)
                found = os.stat(temporary)
                publish(temporary, target)
            except FileNotFoundError:
                continue  # this process paused, and another one removed the file as abandoned; nothing was published yet
            self._settle(path, target)
            return info_of(path, found)
        raise StorageError(
            f"The temporary file was removed {_SWEPT} times before it got its name",
            table=self._location,
            path=path,
            hint="Write again. This process pauses for longer than a missing heartbeat is tolerated.",
        )

    def _settle(self, path: str, target: str) -> None:
        """Make the name of a published file durable. A failure does not take the name back."""
        if self._fsync:
            try:
                files.sync(os.path.dirname(target))
            except OSError as error:
                raise refusal(error, self._location, path, done=True) from error

    def _write_temporary(self, path: str, data: bytes) -> tuple[str, str]:
        target = self._resolve(path)
        try:
            return target, files.write_temporary(target, data, self._fsync)
        except FileNotFoundError:
            self._make_room(path, target)
        return target, files.write_temporary(target, data, self._fsync)

    def _children(self, folder: str, most: int | None = None) -> Folder:
        """Return the children of a folder, or ``most`` of them.

        Without cleaning a folder contains every version of every file, so the loop does little for each file.
        """
        absolute = self._folder(folder)
        base = folder + "/" if folder else ""
        objects: list[ObjectInfo] = []
        folders: list[str] = []
        with self._errors(folder):
            try:
                with os.scandir(absolute) as entries:
                    for entry in islice(entries, most):
                        name = entry.name
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(base + name)
                            continue
                        if entry.is_symlink():
                            self._check_link(entry, base + name)
                        if name[0] == "." and files.is_hidden(name):
                            continue
                        try:
                            found = entry.stat()
                        except FileNotFoundError:
                            continue
                        if stat.S_ISREG(found.st_mode):
                            objects.append(info_of(base + name, found))
                        else:
                            self._look_at(entry, base + name)
            except (FileNotFoundError, NotADirectoryError):
                return Folder((), ())
        return Folder(tuple(sorted(objects, key=_PATH)), tuple(sorted(folders)))

    def _check_link(self, entry: os.DirEntry[str], path: str) -> None:
        """Refuse a symbolic link that leads out of the table, or to a folder."""
        self._refuse_leaving(path, os.path.realpath(entry.path))
        try:
            is_folder = entry.is_dir()
        except OSError as error:
            raise self._unsafe("A symbolic link leads to itself", path) from error
        if is_folder:
            # A listing that follows the link could be endless, and would show one object under two paths.
            raise self._unsafe("A folder is a symbolic link", path)

    def _look_at(self, entry: os.DirEntry[str], path: str) -> None:
        """Refuse a child of a folder that is neither a file nor a folder. A broken link is refused when it is read."""
        with self._errors(path), suppress(FileNotFoundError):
            files.refuse_special(os.stat(entry.path).st_mode)

    def _not_as_expected(self, path: str) -> PreconditionFailedError:
        return PreconditionFailedError("The object is not the expected one", table=self._location, path=path)

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        """Convert errors of the operating system to errors of the package."""
        try:
            yield
        except files.SpecialFileError as error:
            raise self._unsafe(f"The object is {error}, and only files are read and written", path) from error
        except (FileNotFoundError, IsADirectoryError) as error:
            raise ObjectNotFoundError("The object does not exist", table=self._location, path=path) from error
        except NotADirectoryError as error:
            raise ObjectNotFoundError(
                "A part of the path is a file", table=self._location, path=path, hint="Give the folder of a table."
            ) from error
        except OSError as error:
            raise refusal(error, self._location, path) from error


def _identity(found: os.stat_result) -> tuple[int, int]:
    """Return the identity of a folder on this machine."""
    return found.st_dev, found.st_ino


def _may_hold(folder: str, prefix: str, start_after: str) -> bool:
    """Say whether a path below the folder (with its slash) can start with the prefix and sort after the bound."""
    fits = folder.startswith(prefix) or prefix.startswith(folder)
    return fits and (folder > start_after or start_after.startswith(folder))


def _open(location: Location, given: Mapping[str, str]) -> Storage:
    options = LocalOptions.parse(given, location.text)
    return LocalStorage(location.path, fsync=options.fsync, allowed_sources=parse_sources(options.allow_sources))


STORAGE = StorageKind("file", "a disk", LocalOptions, _open)
