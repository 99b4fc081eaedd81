"""``.hoodie/hoodie.properties`` on disk: reading with the backup as a fall-back, and Hudi's update protocol.

An update is: repair what an earlier, interrupted update left; write the backup; replace the file; read it again; remove the backup. At
every moment one of the two files is whole, and readers (Hudi's too) take the file first and then the backup. Updates happen under the table's
lock only; where the storage can replace on condition (If-Match) a process whose lock ran out meanwhile cannot undo the update of another.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from pyhudi_core.errors import (
    CorruptPropertiesError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StorageStateUnknownError,
    TableNotFoundError,
)
from pyhudi_core.model import properties as text
from pyhudi_core.storage.base import ObjectInfo, Storage

PATH = ".hoodie/hoodie.properties"
BACKUP = ".hoodie/hoodie.properties.backup"
_WRITERS = (b"#created by pyhudi", b"#metadata table removed", b"#Updated at", b"#Properties saved on")


class _Soundness(IntEnum):
    """How far a properties file can be believed; a file that was cut off has lost its checksum, and mostly its name."""

    DAMAGED = 0
    UNCHECKED = 1
    WHOLE = 2


def read(storage: Storage) -> dict[str, str]:
    """The table's properties. Raises `TableNotFoundError` and `CorruptPropertiesError`."""
    best: tuple[_Soundness, dict[str, str]] = (_Soundness.DAMAGED, {})
    damage = ""
    found = False
    for path in (PATH, BACKUP):
        try:
            data = storage.get(path)
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
    """Whether the file lost its end: its first line is that of a writer which always puts a checksum there."""
    return text.CHECKSUM not in properties and data.startswith(_WRITERS)


def _soundness(properties: Mapping[str, str], data: bytes) -> _Soundness:
    if not properties.get(text.NAME) or not text.verify(properties) or is_cut_off(properties, data):
        return _Soundness.DAMAGED
    return _Soundness.WHOLE if text.CHECKSUM in properties else _Soundness.UNCHECKED


def create(storage: Storage, properties: Mapping[str, str], comment: str) -> None:
    """Write the first properties. Raises `PreconditionFailedError` where there are some.

    The comment must be one that nobody else has: by it a file that was written although the storage did not say so is known again.
    """
    body = text.render(properties, comment)
    try:
        storage.put_if_absent(PATH, body)
    except (PreconditionFailedError, StorageStateUnknownError):
        if storage.head(PATH) is None or storage.get(PATH) != body:
            raise


def update(storage: Storage, changes: Mapping[str, str | None], comment: str) -> dict[str, str]:
    """Set the given properties (None removes one) and return all. The caller holds the table's lock."""
    _recover(storage)
    seen = storage.head(PATH)  # before the content, so that what is replaced is not younger than what was read
    current = read(storage)
    wanted = {key: value for key, value in current.items() if changes.get(key, value) is not None}
    wanted.update({key: value for key, value in changes.items() if value is not None})
    wanted["hoodie.table.checksum"] = text.checksum(wanted)
    storage.put_if_absent(BACKUP, storage.get(PATH))
    # Hudi deletes and creates; a storage whose put is atomic closes that gap, and readers of either kind are content.
    _replace(storage, text.render(wanted, comment), seen)
    written = read(storage)
    storage.delete(BACKUP)
    return written


def _recover(storage: Storage) -> None:
    """Finish or undo an update that was interrupted."""
    if storage.head(BACKUP) is None:
        return
    seen = storage.head(PATH)
    main, backup = _soundness_of(storage, PATH), _soundness_of(storage, BACKUP)
    if backup > main:
        _replace(storage, storage.get(BACKUP), seen)
    if max(main, backup) > _Soundness.DAMAGED:
        storage.delete(BACKUP)


def _replace(storage: Storage, body: bytes, seen: ObjectInfo | None) -> None:
    """Write the file if it is still the one that was seen; without condition where the storage knows none."""
    if not storage.supports_put_if_match:
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
            return  # it was ours, although the storage did not say so
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
