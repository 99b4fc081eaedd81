"""Storage in Google Cloud Storage and Azure, through obstore.

Invariants: conditional writes report their success even if a request is repeated (``settling``). An opened object does not change for its reader:
later ranges are requested on condition of its tag. A listing requests a complete folder, and this module filters the result. There are two reasons:
obstore accepts only complete names of folders as prefixes, and not every store can list the objects after a given one. Folder markers of other tools
are not objects.

Google's conditions use the generation of an object, not its tag. Every answer except that of a listing has the generation, so this module caches
generations. An unknown generation costs a request.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import obstore
import pyarrow as pa

from pyhudi_core.errors import ObjectNotFoundError, StorageError
from pyhudi_core.runtime.base import Clock, Ids
from pyhudi_core.runtime.system import RandomIds, SystemClock
from pyhudi_core.storage.base import Capabilities, Folder, ObjectInfo, Storage, StorageSpec, Waited, report_failed
from pyhudi_core.storage.object_clients import Account, ObjectJudge, connect
from pyhudi_core.storage.object_errors import ERRORS, failure_of
from pyhudi_core.storage.object_files import NONCE, FoundObject, ObjectOutput
from pyhudi_core.storage.paths import check_folder, check_path, check_prefix, parse_location
from pyhudi_core.storage.ranged import PIECE, READ_AHEAD, SmallFiles, open_ranged, read_pieces
from pyhudi_core.storage.refusals import refuse_large
from pyhudi_core.storage.settling import Settler, unknown

T = TypeVar("T")
_PAGE = 1000
_CAPABILITIES = Capabilities(put_if_absent=True, put_if_match=True, parallel_calls=16)
_DELETED_AT_ONCE = 16
_BATCH = 250
"""The number of objects in one call of obstore; Azure deletes up to 256 with one request."""
_VERSIONS = 1_000
_FOLDER_MARK = "hdi_isfolder"
"""Azure's hierarchical namespaces show a folder as an object with this metadata."""


@dataclass(frozen=True, slots=True)
class ObjectTarget:
    """An object: its key in the bucket, and location and path for messages."""

    store: str
    key: str
    table: str
    path: str


class ObjectStorage(Storage):
    """A prefix of a bucket or container.

    Args:
        location: the location as shown to users.
        base: the prefix, without slashes at its ends.
        account: the bucket and the credentials for it.
        options: the storage options, for other processes.
        allowed: outside folders that readers may open.
        clock: waits between attempts.
        ids: gives nonces and jitter.
    """

    def __init__(
        self,
        location: str,
        base: str,
        account: Account,
        options: Mapping[str, str],
        allowed: tuple[str, ...] = (),
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None:
        self._location = location
        self._base = base + "/" if base else ""
        self._options = options
        self._allowed = allowed
        self._provider = account.provider
        self._clients = connect(account)
        self._ids = ids or RandomIds()
        self._settler = Settler(clock or SystemClock(), self._ids, self._clients.busy)
        self._versions: dict[str, tuple[str, str]] = {}
        self._small: SmallFiles | None = None

    @property
    def location(self) -> str:
        return self._location

    @property
    def real_location(self) -> str:
        return parse_location(self._location).canonical

    def is_at(self, location: str) -> bool:
        return parse_location(self._location).may_be(parse_location(location))

    @property
    def store(self) -> str:
        return self._clients.account.endpoint.rstrip("/").lower()

    @property
    def capabilities(self) -> Capabilities:
        return _CAPABILITIES

    @property
    def allowed_sources(self) -> tuple[str, ...]:
        return self._allowed

    @property
    def waited(self) -> Waited:
        return self._clients.busy.waited

    def busy_time(self, seconds: float) -> object:
        return self._settler.busy_time(seconds)

    @property
    def unproved_server(self) -> str:
        account = self._clients.account
        return (
            ""
            if account.provider.own(account.endpoint)
            else f"{account.endpoint}, {account.provider.place} {account.bucket}"
        )

    def __repr__(self) -> str:
        return f"ObjectStorage({self._location!r})"

    def spec(self) -> StorageSpec:
        return StorageSpec(self._location, dict(self._options))

    def get(self, path: str) -> bytes:
        return self._read(self._target(path), {})[1]

    def head(self, path: str) -> ObjectInfo | None:
        found = self._find(self._target(path))
        return None if found is None else found.info

    def get_tagged(self, path: str, unless: str = "") -> tuple[ObjectInfo, bytes] | None:
        try:
            return self._read(self._target(path), {"if_none_match": _quoted(unless)} if unless else {})
        except _NotModifiedError:
            return None

    def list(self, prefix: str, start_after: str = "") -> builtins.list[ObjectInfo]:
        check_prefix(prefix, self._location)
        folder = prefix.rpartition("/")[0]
        after = self._base + start_after if start_after and self._provider.lists_after else None
        root = (self._base + folder).strip("/") or None

        def call() -> Any:
            return [page for pages in obstore.list(self._clients.short, root, offset=after) for page in pages]

        found = [self._listed(each) for each in self._list(prefix, call)]
        wanted = [info for info in found if info.path.startswith(prefix) and info.path > start_after]
        return _without_marks(sorted(wanted, key=lambda info: info.path))

    def list_folder(self, folder: str) -> Folder:
        root = (self._base + check_folder(folder, self._location)).strip("/") or None
        found = self._list(folder, lambda: obstore.list_with_delimiter(self._clients.short, root))
        objects = sorted(map(self._listed, found["objects"]), key=lambda info: info.path)
        folders = sorted(str(name).strip("/")[len(self._base) :] for name in found["common_prefixes"])
        return Folder(tuple(info for info in objects if info.path and info.path not in folders), tuple(folders))

    def list_some(self, folder: str, most: int) -> builtins.list[ObjectInfo]:
        inside = f"{check_folder(folder, self._location)}/" if folder else ""
        root = (self._base + folder).strip("/") or None

        def call() -> Any:
            found: list[Any] = []
            for page in obstore.list(self._clients.short, root, chunk_size=_PAGE):
                found.extend(page)
                if len(found) >= most:
                    break
            return found

        found = sorted(map(self._listed, self._list(folder, call)), key=lambda info: info.path)
        return [info for info in found if info.path.startswith(inside) and "/" not in info.path[len(inside) :]]

    def put(self, path: str, data: bytes) -> ObjectInfo:
        target = self._target(path)
        answer = self._ask(target, lambda: self._send(target, data, "overwrite", ""), changes=True, of_object=False)
        return self._written(target, len(data), answer)

    def put_if_absent(self, path: str, data: bytes) -> ObjectInfo:
        target = self._target(path)
        return self._written(target, len(data), self._create(target, data))

    def put_if_match(self, path: str, data: bytes, etag: str) -> ObjectInfo:
        target = self._target(path)
        nonce = self._ids.uuid()

        def send() -> Any:
            return self._at_version(target, etag, lambda version: self._send(target, data, version, nonce))

        return self._written(target, len(data), self._settle(target, send, nonce, etag))

    def delete(self, path: str) -> None:
        self._delete(self._target(path))

    def delete_many(self, paths: Iterable[str]) -> None:
        targets = list({path: self._target(path) for path in paths}.values())
        batches = [targets[start : start + _BATCH] for start in range(0, len(targets), _BATCH)]
        left = [target for batch in batches if not self._delete_batch(batch) for target in batch]
        wrong: dict[str, str] = {}

        def alone(target: ObjectTarget) -> None:
            try:
                self._delete(target)
            except StorageError as error:
                wrong[target.path] = error.message

        if left:
            with ThreadPoolExecutor(_DELETED_AT_ONCE, "pyhudi-delete") as pool:
                list(pool.map(alone, left))
        report_failed(wrong, len(targets), self._location)

    def delete_if_match(self, path: str, etag: str) -> None:
        """Remove the object if its tag is ``etag``.

        obstore has no such call. So this method first replaces the object by an empty one on this condition, and then deletes the empty object. If
        the process ends between the two requests, the empty object stays; no reader confuses it with the old object.
        """
        self.put_if_match(path, b"", etag)
        self._delete(self._target(path))

    def open_input(self, path: str) -> pa.NativeFile:
        target = self._target(path)
        known = None if self._small is None else self._small.opened(path)
        if known is not None:
            return known
        info, beginning = self._read_range(target, 0, READ_AHEAD)
        if self._small is not None:
            self._small.keep(path, info.size, beginning)

        def read_range(start: int, stop: int) -> bytes:
            return self._read_range(target, start, stop, info.etag)[1]

        return open_ranged(path, info.size, beginning, read_range)

    def opening_once(self) -> Storage:
        if self._small is not None:
            return self
        same = copy(self)
        same._small = SmallFiles()
        return same

    def open_output(self, path: str) -> ObjectOutput:
        target = self._target(path)
        return ObjectOutput(_Uploads(self, target, self._ids.uuid()))

    # --- requests

    def _target(self, path: str) -> ObjectTarget:
        target = self._place(check_path(path, self._location))
        if self._provider.refused_letter and self._provider.refused_letter in path:
            raise self._clients.no_name(f"{self._provider.refused_letter!r} is in it", target)
        return target

    def _place(self, path: str) -> ObjectTarget:
        return ObjectTarget(self._provider.title, self._base + path, self._location, path)

    def _ask(self, target: ObjectTarget, call: Callable[[], T], *, changes: bool = False, of_object: bool = True) -> T:
        return self._clients.ask(self._settler, target, call, changes=changes, of_object=of_object)

    def _list(self, folder: str, call: Callable[[], T]) -> T:
        return self._clients.ask(self._settler, self._place(folder), call, of_object=False)

    def _once(self, target: ObjectTarget, call: Callable[[], T]) -> T:
        """Make a call that changes an object. obstore repeats the call if that is safe, so this method does not."""
        try:
            return self._clients.call(call)
        except ERRORS as error:
            raise self._clients.error(failure_of(error), target, changes=True) from None

    def _send(self, target: ObjectTarget, data: bytes, mode: Any, nonce: str) -> Any:
        client = self._clients.short if len(data) <= READ_AHEAD else self._clients.long
        attributes = {NONCE: nonce} if nonce else None
        return obstore.put(client, target.key, data, mode=mode, attributes=attributes, use_multipart=False)

    def _create(self, target: ObjectTarget, data: bytes, nonce: str = "") -> Any:
        nonce = nonce or self._ids.uuid()
        return self._settle(target, lambda: self._send(target, data, "create", nonce), nonce, None)

    def _settle(self, target: ObjectTarget, send: Callable[[], Any], nonce: str, etag: str | None) -> Any:
        """Send a conditional request. ``etag``: the tag of the object to replace; None to create it."""

        def find_own() -> Any | None:
            found = self._find(target)
            if found is not None and found.nonce == nonce:
                return {"e_tag": found.info.etag, "version": found.version}
            if (found is None) if etag is None else (found is not None and found.info.etag == etag):
                return None
            raise unknown(target)

        judge = ObjectJudge(self._clients, creates=etag is None)
        return self._settler.settle(target, judge, lambda: self._clients.call(send), find_own)

    def _find(self, target: ObjectTarget) -> FoundObject | None:
        """Return the object; None if it does not exist."""
        try:
            return self._ask(target, lambda: self._look(target))
        except ObjectNotFoundError:
            return None

    def _look(self, target: ObjectTarget) -> FoundObject:
        found = obstore.get(self._clients.short, target.key, options={"head": True})
        return FoundObject(self._info(target, found), str(found.attributes.get(NONCE, "")), found.meta["version"] or "")

    def _at_version(self, target: ObjectTarget, etag: str, call: Callable[[Any], T]) -> T:
        """Make a request on condition that the object has this tag. The call gets the version in obstore's form."""
        if not self._provider.versions:
            return call({"e_tag": _quoted(etag)})
        known, version = self._versions.get(target.key, ("", ""))
        if known == etag:
            try:
                return call({"version": version})
            except ERRORS as error:
                if not failure_of(error).condition:
                    raise
                # Another writer has replaced the object, perhaps with the same bytes and so the same tag: look up the new generation.
        found = self._find(target)
        if found is None or found.info.etag != etag:
            raise obstore.exceptions.PreconditionError("The object has another tag")
        return call({"version": found.version})

    def _delete(self, target: ObjectTarget) -> None:
        try:
            self._ask(target, lambda: obstore.delete(self._clients.short, target.key), changes=True)
        except ObjectNotFoundError:
            return

    def _delete_batch(self, batch: builtins.list[ObjectTarget]) -> bool:
        """Delete objects with one call of obstore. Return whether all are deleted."""
        if len(batch) < 2:
            return not batch
        try:
            self._clients.call(lambda: obstore.delete(self._clients.long, [target.key for target in batch]))
        except ERRORS:
            return False
        return True

    def _read(self, target: ObjectTarget, options: Any) -> tuple[ObjectInfo, bytes]:
        """Get a complete object; a large one in pieces. Raises `_NotModifiedError` if the object does not satisfy a condition in the options."""

        def call() -> tuple[ObjectInfo, bytes | None]:
            try:
                found = obstore.get(self._clients.reads, target.key, options=options)
            except obstore.exceptions.NotModifiedError:
                raise _NotModifiedError from None
            info = self._info(target, found)
            refuse_large(info.size, self._location, target.path)
            return info, bytes(found.bytes()) if info.size <= PIECE else None

        info, data = self._ask(target, call)
        if data is None:
            into = bytearray(info.size)
            read_pieces(lambda start, stop: self._read_range(target, start, stop, info.etag)[1], 0, memoryview(into))
            data = bytes(into)
        return info, data

    def _read_range(self, target: ObjectTarget, start: int, stop: int, etag: str = "") -> tuple[ObjectInfo, bytes]:
        client = self._clients.short if stop - start <= READ_AHEAD else self._clients.reads
        options: Any = {"range": (start, stop), **({"if_match": _quoted(etag)} if etag else {})}

        def call() -> tuple[ObjectInfo, bytes]:
            try:
                found = obstore.get(client, target.key, options=options)
            except ERRORS as error:
                if failure_of(error).status != 416:
                    raise
                found = obstore.get(client, target.key)  # the object is empty
            return self._info(target, found), bytes(found.bytes())

        return self._ask(target, call)

    # --- what answers say

    def _info(self, target: ObjectTarget, found: Any) -> ObjectInfo:
        if str(found.attributes.get(_FOLDER_MARK, "")).lower() == "true":
            raise ObjectNotFoundError("The object does not exist", table=target.table, path=target.path)
        meta = found.meta
        info = ObjectInfo(target.path, meta["size"], _ms(meta["last_modified"]), _plain(meta["e_tag"]))
        self._remember(target.key, info.etag, meta["version"])
        return info

    def _listed(self, meta: Mapping[str, Any]) -> ObjectInfo:
        path = str(meta["path"])[len(self._base) :]
        return ObjectInfo(path, meta["size"], _ms(meta["last_modified"]), _plain(meta["e_tag"]))

    def _written(self, target: ObjectTarget, size: int, answer: Mapping[str, Any]) -> ObjectInfo:
        etag = _plain(answer["e_tag"])
        self._remember(target.key, etag, answer["version"])
        return ObjectInfo(target.path, size, 0, etag)

    def _remember(self, key: str, etag: str, version: str | None) -> None:
        if not self._provider.versions or not version:
            return
        if len(self._versions) >= _VERSIONS:
            self._versions.clear()
        self._versions[key] = (etag, version)


@dataclass(frozen=True, slots=True)
class _Uploads:
    """The requests for one data file (`object_files.Uploads`)."""

    storage: ObjectStorage
    target: ObjectTarget
    nonce: str

    def create(self, data: bytes) -> ObjectInfo:
        answer = self.storage._create(self.target, data, self.nonce)
        return self.storage._written(self.target, len(data), answer)

    def find(self) -> FoundObject | None:
        return self.storage._find(self.target)

    def begin(self, part_size: int, at_once: int) -> Any:
        return obstore.open_writer(
            self.storage._clients.parts,
            self.target.key,
            attributes={NONCE: self.nonce},
            buffer_size=part_size,
            max_concurrency=at_once,
        )

    def send(self, call: Callable[[], T]) -> T:
        return self.storage._once(self.target, call)


class _NotModifiedError(Exception):
    """The object has not changed."""


def _without_marks(objects: builtins.list[ObjectInfo]) -> builtins.list[ObjectInfo]:
    """Return the sorted objects, without folder markers: empty objects whose name is a folder of other objects."""
    paths = [info.path for info in objects if "/" in info.path]
    above = {path[:at] for path in paths for at, letter in enumerate(path) if letter == "/"}
    return [info for info in objects if info.path and (info.size or info.path not in above)]


def _quoted(etag: str) -> str:
    return f'"{etag}"'


def _plain(etag: str | None) -> str:
    return (etag or "").strip('"')


def _ms(time: datetime) -> int:
    return int(time.timestamp() * 1000)
