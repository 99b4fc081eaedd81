"""Read ``.hoodie/hoodie.properties``, with the backup as fall-back, and update it by Hudi's protocol.

An update repairs the rest of an earlier, interrupted update, writes the backup, replaces the file, reads it again, and removes the backup. At every
moment one of the two files is complete, and readers (Hudi's too) read the file first and then the backup. Updates need the table's lock. If the
storage supports conditional replacement (If-Match), a process cannot undo an update by another process, even if its lock has expired.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from pyhudi_core.errors import (
    CorruptPropertiesError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StorageStateUnknownError,
    TableNotFoundError,
)
from pyhudi_core.model import properties as text
from pyhudi_core.runtime.base import Executor
from pyhudi_core.runtime.system import SerialExecutor
from pyhudi_core.storage.at_once import both
from pyhudi_core.storage.base import ObjectInfo, Storage

PATH = ".hoodie/hoodie.properties"
BACKUP = ".hoodie/hoodie.properties.backup"
COMMENT = "changed by pyhudi"
"""The beginning of the comment of a change; a time or a token makes the comment unique."""
_TRIES = 3
_SERIAL = SerialExecutor()
_WRITERS = (
    b"#created by pyhudi",
    f"#{COMMENT}".encode(),
    b"#metadata table removed",
    b"#Updated at",
    b"#Properties saved on",
)


_WITHOUT_CHECKSUM = ("0", "1", "2", "3")
"""The table versions of releases that wrote no checksum."""


class _Soundness(IntEnum):
    """How reliable a properties file is; a truncated file has lost its checksum, and usually its name."""

    DAMAGED = 0
    UNCHECKED = 1
    WHOLE = 2


def read(storage: Storage, found_now: bytes | None = None) -> dict[str, str]:
    """Return the table's properties; ``found_now``: the file, if it was just read. Raises `TableNotFoundError` and `CorruptPropertiesError`."""
    best: tuple[_Soundness, dict[str, str]] = (_Soundness.DAMAGED, {})
    damage = ""
    found = False
    for path in (PATH, BACKUP):
        try:
            data = found_now if path == PATH and found_now is not None else storage.get(path)
            properties = text.parse(data, path=path)
        except ObjectNotFoundError:
            continue
        except CorruptPropertiesError as error:
            damage, found = error.message, True
            continue
        found = True
        sound = _soundness(properties, data)
        if sound is _Soundness.WHOLE:
            return properties
        if sound > best[0]:
            best = (sound, properties)
    if not found:
        raise TableNotFoundError(
            "There is no Hudi table here: .hoodie/hoodie.properties is missing",
            table=storage.location,
            hint="Check the location, or make a table with create_table.",
        )
    if best[0] is _Soundness.DAMAGED:
        raise CorruptPropertiesError(
            damage or "In hoodie.properties the checksum does not match the table's name, or one of the two is cut off",
            table=storage.location,
            path=PATH,
            hint="Restore the file from a copy; nothing was changed.",
        )
    return best[1]


def is_cut_off(properties: Mapping[str, str], data: bytes) -> bool:
    """Say whether the file is truncated. Its first line shows a writer that always adds a checksum to tables of version 4 and later."""
    has_none = properties.get("hoodie.table.version", "").strip() in _WITHOUT_CHECKSUM
    return text.CHECKSUM not in properties and data.startswith(_WRITERS) and not has_none


def _soundness(properties: Mapping[str, str], data: bytes) -> _Soundness:
    if not properties.get(text.NAME) or not text.verify(properties) or is_cut_off(properties, data):
        return _Soundness.DAMAGED
    return _Soundness.WHOLE if text.CHECKSUM in properties else _Soundness.UNCHECKED


def create(storage: Storage, properties: Mapping[str, str], comment: str) -> bytes:
    """Write the first properties, and return the file. Raises `PreconditionFailedError` if properties exist.

    The comment must be unique: it identifies a file that was written although the storage did not report it.
    """
    body = text.render(properties, comment)
    try:
        storage.put_if_absent(PATH, body)
    except (PreconditionFailedError, StorageStateUnknownError):
        if storage.head(PATH) is None or storage.get(PATH) != body:
            raise
    return body


def remove(storage: Storage, refuse_other: Callable[[], object]) -> None:
    """Delete the properties, so that the table no longer exists. ``refuse_other`` is called after the properties were read; it raises to prevent the
    deletion. The file that readers trust is deleted last: if the process dies in between, the current properties stay, never older ones.

    Raises `PreconditionFailedError` if the properties changed after they were read.
    """
    seen = {path: storage.head(path) for path in (PATH, BACKUP)}
    refuse_other()
    last = BACKUP if _soundness_of(storage, BACKUP) > _soundness_of(storage, PATH) else PATH
    for path, info in sorted(seen.items(), key=lambda one: one[0] == last):
        if info is not None:
            storage.delete_if_match(path, info.etag)


def update(
    storage: Storage, changes: Mapping[str, str | None], comment: str, wanted: Callable[[], bool] = lambda: True
) -> dict[str, str]:
    """Set the given properties (None removes one) and return all. The caller holds the table's lock; ``wanted`` as in `apply`."""
    _recover(storage)
    seen = storage.head(
        PATH
    )  # read before the content, so the replaced file is never newer than the content that was read
    current = read(storage)
    if not wanted():
        return current
    storage.put_if_absent(BACKUP, storage.get(PATH))
    # Hudi deletes and creates; a storage with atomic put avoids the gap, and readers of both packages accept it.
    _replace(storage, text.render(changed(current, changes), comment), seen)
    written = read(storage)
    storage.delete(BACKUP)
    return written


@dataclass(frozen=True, slots=True)
class PropertiesSeen:
    """The properties as this process read them. ``info`` is None if only Hudi's protocol can change them."""

    info: ObjectInfo | None
    properties: Mapping[str, str]


def look(storage: Storage, executor: Executor = _SERIAL) -> PropertiesSeen:
    """Read the properties for a change. Raises as `read`."""
    info, current = _whole(storage, executor) if storage.capabilities.put_if_match else (None, None)
    return PropertiesSeen(info, read(storage)) if current is None else PropertiesSeen(info, current)


def apply(
    storage: Storage,
    changes: Mapping[str, str | None],
    comment: str,
    wanted: Callable[[], bool] = lambda: True,
    executor: Executor = _SERIAL,
    known: PropertiesSeen | None = None,
) -> None:
    """Apply the changes to the current content of the file; no effect if they are already applied. Any process may call this repeatedly.

    A storage with If-Match needs no backup, since readers see the old or the new object; elsewhere the caller holds the table's lock. The
    comment must be unique. ``wanted`` is called between the read and the write, and returns whether the changes are still needed.
    ``known``: properties for which the changes were certainly needed. If they are still current, the file is not read, and ``wanted`` is not called.

    Raises as `update`.
    """
    for _ in range(_TRIES):
        is_known, seen = known is not None and known.info is not None, known or look(storage, executor)
        known = None
        if _holds(seen.properties, changes) or not (is_known or wanted()):
            return
        try:
            if seen.info is None:
                update(storage, changes, comment, wanted)
            else:
                _replace(storage, text.render(changed(seen.properties, changes), comment), seen.info)
        except PreconditionFailedError:
            continue
        return
    raise StorageStateUnknownError(
        "Others changed hoodie.properties again and again",
        path=PATH,
        hint="Nothing was changed by this one; try again.",
    )


def _whole(storage: Storage, executor: Executor) -> tuple[ObjectInfo | None, dict[str, str] | None]:
    """Return the file and its content; None if the file is incomplete, or if it has a backup."""
    try:
        found, backup = both(storage, executor, lambda: storage.get_tagged(PATH), lambda: storage.head(BACKUP))
        assert found is not None, "no condition was set"
        properties = text.parse(found[1], path=PATH)
    except (ObjectNotFoundError, CorruptPropertiesError):
        return None, None
    whole = backup is None and _soundness(properties, found[1]) is _Soundness.WHOLE
    return (found[0], properties) if whole else (None, None)


def _holds(current: Mapping[str, str], changes: Mapping[str, str | None]) -> bool:
    """Say whether the properties already have the changes. An empty property counts as missing."""
    return all((current.get(key) or None) == (value or None) for key, value in changes.items())


def changed(current: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return all properties after a change, in the order in which they are written."""
    wanted = {key: value for key, value in current.items() if changes.get(key, value) is not None}
    wanted.update({key: value for key, value in changes.items() if value is not None})
    wanted.pop(text.CHECKSUM, None)  # Hudi writes it anywhere; at the end it shows that the file is not truncated
    wanted[text.CHECKSUM] = text.checksum(wanted)
    return wanted


def _recover(storage: Storage) -> None:
    """Finish or undo an interrupted update."""
    if storage.head(BACKUP) is None:
        return
    seen = storage.head(PATH)
    main, backup = _soundness_of(storage, PATH), _soundness_of(storage, BACKUP)
    if backup > main:
        _replace(storage, storage.get(BACKUP), seen)
    if max(main, backup) > _Soundness.DAMAGED:
        storage.delete(BACKUP)


def _replace(storage: Storage, body: bytes, seen: ObjectInfo | None) -> None:
    """Write the file if it has not changed since it was read; unconditionally if the storage has no conditional writes."""
    if not storage.capabilities.put_if_match:
        storage.put(PATH, body)
        return
    try:
        if seen is None:
            storage.put_if_absent(PATH, body)
        else:
            storage.put_if_match(PATH, body, seen.etag)
    except (PreconditionFailedError, StorageStateUnknownError) as error:
        found = storage.head(PATH)
        if found is not None and storage.get(PATH) == body:
            return  # this process wrote the file, although the storage did not report it
        raise PreconditionFailedError(
            "Another process changed hoodie.properties at the same time",
            table=storage.location,
            path=PATH,
            hint="Nothing was changed by this one; try again.",
        ) from error


def _soundness_of(storage: Storage, path: str) -> _Soundness:
    try:
        data = storage.get(path)
        return _soundness(text.parse(data, path=path), data)
    except (ObjectNotFoundError, CorruptPropertiesError):
        return _Soundness.DAMAGED
