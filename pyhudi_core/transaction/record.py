"""The commit record: where a commit is decided.

The record holds the intent of the latest decision: the files to publish, and where the bytes are staged. The record is changed only by
compare-and-swap, and is never cleared. So if two writers both believe that they hold the lock, only one of the two can decide. Every later writer
finishes the decided commit before the writer decides another commit. A storage with If-Match has one object. A POSIX disk has numbered files, which
are created with link(2); the newest file is the record.

The record also keeps the bytes of the last file of the intent. For a commit, the last file is the completed file. The staged bytes are removed after
the commit, so a lost completed file is published again from the record (``lost_completions.py``).
"""

from __future__ import annotations

import json
import logging
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol

from pyhudi_core.errors import (
    CorruptTimelineError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StorageError,
    StorageStateUnknownError,
)
from pyhudi_core.model.bounded_json import parse_json
from pyhudi_core.storage.base import Storage
from pyhudi_core.transaction.layout import COMMIT_RECORD

_log = logging.getLogger(__name__)
_KEPT = 8
_MOST_BYTES = 1 << 20
"""The record does not keep a completed file that is longer than this, because every writer reads the record."""
_SENDS = 3
_FORMAT = 1
_TEXTS = ("requested_time", "completion_time", "action", "inflight", "token")
_FIELDS = frozenset({*_TEXTS, "publications", "companions", "group"})


_REPLACE_BY_PART = "replace_by_part"
"""The word in the record for a replacement by a part of a staged object.

An older release does not know the word, so an older release does not publish the full object.
"""


class PublicationKind(StrEnum):
    """The effect of a publication on its path."""

    CREATE = "create"
    REPLACE = "replace"
    PROPERTIES = "properties"


RecordedChanges = tuple[tuple[str, str | None], ...]
"""Properties and their new values; None removes a property."""


@dataclass(frozen=True, slots=True)
class Publication:
    """One file that a decision makes or changes.

    Attributes:
        path: the file.
        staged: the object that holds the new bytes; empty for `PublicationKind.PROPERTIES`.
        kind: create the file if the file does not exist; replace the file if its content is still the expected content; or change some of the table's
            properties.
        replaces: for `PublicationKind.REPLACE`: the digest of the content that is replaced (`publication.digest`); empty if there is no file yet.
        changes: for `PublicationKind.PROPERTIES`: the changed properties.
        part: for `PublicationKind.REPLACE`: offset and length of the new bytes in the staged object; None: the full object.
    """

    path: str
    staged: str
    kind: PublicationKind = PublicationKind.CREATE
    replaces: str = ""
    changes: RecordedChanges = ()
    part: tuple[int, int] | None = None

    def cut(self, staged: bytes) -> bytes:
        """Return the bytes of this publication, given the bytes of the staged object."""
        if self.part is None:
            return staged
        begin, length = self.part
        return staged[begin : begin + length]

    def to_json(self) -> dict[str, Any]:
        """Return the stored form. For a file that is created, the form has no kind, as in older releases."""
        found: dict[str, Any] = {"path": self.path, "staged": self.staged}
        if self.kind is not PublicationKind.CREATE:
            found["kind"] = str(self.kind)
        if self.kind is PublicationKind.REPLACE:
            found["replaces"] = self.replaces
        if self.part is not None:
            found |= {"kind": _REPLACE_BY_PART, "part": list(self.part)}
        if self.kind is PublicationKind.PROPERTIES:
            found["changes"] = dict(self.changes)
        return found

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Publication:
        """Parse the stored form. Raises `KeyError`, `TypeError` or `ValueError` for what no release has written."""
        text, part = found.get("kind", "create"), None
        if text == _REPLACE_BY_PART:
            text, (begin, length) = PublicationKind.REPLACE, found["part"]
            part = _place(begin), _place(length)
        kind = PublicationKind(text)
        changes = found["changes"] if kind is PublicationKind.PROPERTIES else {}
        if not all(value is None or isinstance(value, str) for value in changes.values()):
            raise TypeError("a property is not a text")
        replaces = str(found["replaces"]) if kind is PublicationKind.REPLACE else ""
        return cls(str(found["path"]), str(found["staged"]), kind, replaces, tuple(sorted(changes.items())), part)


@dataclass(frozen=True, slots=True)
class Intent:
    """The content of a decision.

    All paths begin at the root of the protocol's storage. The publications are made in their order: a publication is made when the previous one
    exists.

    Attributes:
        inflight: the intent counts only while this file exists. A rollback by another program removes this file, so the rollback voids the intent.
        companions: the inflight files of the commits in companion tables that belong to the intent. They must exist, too.
        group: the decision over several tables on which the intent depends (``transaction/group.py``); empty for a decision about one table.
    """

    requested_time: str
    completion_time: str
    action: str
    inflight: str
    token: str
    publications: tuple[Publication, ...]
    companions: tuple[str, ...] = ()
    group: str = ""

    @property
    def only_creates(self) -> bool:
        """Whether any process may publish the intent without the lock: the intent replaces no file that other processes change, too."""
        return all(publication.kind is PublicationKind.CREATE for publication in self.publications)

    def to_json(self) -> dict[str, Any]:
        """Return the stored form."""
        texts = {name: getattr(self, name) for name in _TEXTS}
        found = {**texts, "publications": [publication.to_json() for publication in self.publications]}
        found |= {"companions": list(self.companions)} if self.companions else {}
        return {**found, "group": self.group} if self.group else found

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Intent:
        """Parse the stored form. Raises `KeyError`, `TypeError` or `ValueError` for what no release has written."""
        texts = {name: found[name] for name in _TEXTS}
        companions, group = found.get("companions", []), found.get("group", "")
        if not all(isinstance(value, str) for value in (*texts.values(), *companions, group)) or found.keys() - _FIELDS:
            raise TypeError("a field of the intent is not a text, or is unknown")
        publications = tuple(map(Publication.from_json, found["publications"]))
        if not publications:
            raise ValueError("a decision that publishes nothing")
        return cls(**texts, publications=publications, companions=tuple(companions), group=group)


@dataclass(frozen=True, slots=True)
class Record:
    """The record's content.

    Attributes:
        position: the number or the entity tag of the record. A swap succeeds only if the position is unchanged.
        last_file: the bytes of the intent's last file; empty if the bytes are too long, or if an older release wrote the record without the bytes.
    """

    intent: Intent
    lock_identity: str
    position: str = ""
    last_file: bytes = b""

    def encode(self) -> bytes:
        body = {"version": _FORMAT, "lock": self.lock_identity, "intent": self.intent.to_json()}
        if 0 < len(self.last_file) <= _MOST_BYTES:
            body["last_file"] = b64encode(zlib.compress(self.last_file)).decode()
        return json.dumps(body, sort_keys=True).encode()

    @classmethod
    def decode(cls, data: bytes, path: str, position: str) -> Record:
        try:
            body: dict[str, Any] = parse_json(data)
            return cls(
                Intent.from_json(body["intent"]), str(body["lock"]), position, _unpacked(body.get("last_file", ""))
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, zlib.error) as error:
            raise CorruptTimelineError(
                "The commit record cannot be read",
                path=path,
                detail=str(error),
                hint="No commit is possible until it is repaired: restore the file, or remove it while no writer runs.",
            ) from error


def _place(value: object) -> int:
    """Return the value if it is a number of bytes. Raises `TypeError` for any other value."""
    if type(value) is not int or value < 0:
        raise TypeError("a part of a staged object is no place in it")
    return value


def _unpacked(text: str) -> bytes:
    """Decompress the bytes of the last file, up to the limit `_MOST_BYTES`.

    Raises `ValueError`, `TypeError` or `zlib.error`.
    """
    return zlib.decompressobj().decompress(b64decode(text, validate=True), _MOST_BYTES) if text else b""


class RecordStore(Protocol):
    """Reads and swaps the record of one table."""

    def read(self, known: Record | None = None) -> Record | None:
        """Return the current record. If the current record is still ``known``, this takes one call instead of several."""
        ...

    def swap(self, previous: Record | None, record: Record) -> Record:
        """Replace the record ``previous`` (None: there is no record yet) by ``record``. Returns the new record with its position.

        Raises `PreconditionFailedError` if ``previous`` is not the current record, and `StorageStateUnknownError` if the outcome is unknown.
        """
        ...

    def kept(self) -> Iterator[Record]:
        """Iterate over the existing records, the newest first."""
        ...

    def sweep(self) -> None:
        """Remove records that were superseded long ago. Call this without the lock. Never raises a `StorageError`."""
        ...


def record_store(storage: Storage) -> RecordStore:
    """Return the record store that suits the storage."""
    return TaggedRecordStore(storage) if storage.capabilities.put_if_match else NumberedRecordStore(storage)


@dataclass(frozen=True, slots=True)
class TaggedRecordStore:
    """The record is one object, replaced by If-Match."""

    storage: Storage

    @property
    def path(self) -> str:
        return f"{COMMIT_RECORD}.json"

    def read(self, known: Record | None = None) -> Record | None:
        try:
            found = self.storage.get_tagged(self.path, "" if known is None else known.position)
        except ObjectNotFoundError:
            return None
        return known if found is None else Record.decode(found[1], self.path, found[0].etag)

    def swap(self, previous: Record | None, record: Record) -> Record:
        if previous is None:
            written = self.storage.put_if_absent(self.path, record.encode())
        else:
            written = self.storage.put_if_match(self.path, record.encode(), previous.position)
        return replace(record, position=written.etag)

    def kept(self) -> Iterator[Record]:
        """Yield the only record."""
        record = self.read()
        yield from () if record is None else (record,)

    def sweep(self) -> None:
        """Do nothing: there is only one object."""


@dataclass(frozen=True, slots=True)
class NumberedRecordStore:
    """Files ``commit_record.<number>.json``; the greatest number is the record."""

    storage: Storage

    def _path(self, number: int) -> str:
        return f"{COMMIT_RECORD}.{number:012d}.json"

    def _numbers(self) -> list[int]:
        listed = self.storage.list(f"{COMMIT_RECORD}.")
        texts = ((info.path, info.path[len(COMMIT_RECORD) + 1 :].removesuffix(".json")) for info in listed)
        # Other names would make `read` look repeatedly for files that do not exist.
        numbers = ((path, int(text)) for path, text in texts if text.isascii() and text.isdigit())
        return sorted(number for path, number in numbers if self._path(number) == path)

    def read(self, known: Record | None = None) -> Record | None:
        while True:
            numbers = self._numbers()
            if not numbers:
                return None
            if known is not None and known.position == str(numbers[-1]):
                return known
            path = self._path(numbers[-1])
            try:
                return Record.decode(self.storage.get(path), path, str(numbers[-1]))
            except ObjectNotFoundError:
                continue  # another process superseded and swept this record between the two calls

    def swap(self, previous: Record | None, record: Record) -> Record:
        number = int(previous.position) + 1 if previous else 1
        self.storage.put_if_absent(self._path(number), record.encode())
        try:
            numbers = self._numbers()
        except StorageError as error:
            raise StorageStateUnknownError(
                "The commit record could not be read back", path=self._path(number)
            ) from error
        if not numbers or numbers[-1] != number:
            # Our number was used and swept long ago, or other writers decided after us, or the listing of a network disk is old. The caller finds out
            # which case it is.
            raise StorageStateUnknownError("The commit record moved on", path=self._path(number))
        return replace(record, position=str(number))

    def kept(self) -> Iterator[Record]:
        """Yield the newest records."""
        for number in reversed(self._numbers()):
            path = self._path(number)
            with suppress(ObjectNotFoundError):  # another process swept the file after the listing
                yield Record.decode(self.storage.get(path), path, str(number))

    def sweep(self) -> None:
        """Remove all records except the newest few.

        A failure is only logged, because a failure must not make the caller's decision look undone. A later decision removes the remaining objects.
        """
        try:
            self.storage.delete_many(map(self._path, self._numbers()[:-_KEPT]))
        except StorageError as error:
            _log.warning("could not remove old commit records: %s", error)


def swap_settled(store: RecordStore, previous: Record | None, record: Record) -> Record | None:
    """Swap the record and find out the outcome. Returns the record if the record has our intent. Returns None if our intent can never be decided.

    While the record is unchanged, an unanswered swap may still reach the storage. So the swap is sent again until the record changes. A repeated swap
    cannot decide twice. Without the repetition, a commit could be reported as undone, and become visible a moment later.

    Raises `StorageStateUnknownError` if the outcome stays unknown, and `StorageError` if the storage refused the swap and nothing happened.
    """
    in_doubt = False
    for _ in range(_SENDS):
        refusal: StorageError | None = None
        try:
            made = store.swap(previous, record)
        except PreconditionFailedError:
            pass  # another process changed the record, or an earlier swap of ours did: the record shows which
        except StorageStateUnknownError:
            in_doubt = True
        except StorageError as error:
            refusal = error
        else:
            return made
        found = _read_back(store)
        if found is not None and found.intent == record.intent:
            if refusal is not None:
                # The file exists, but a disk that fails while it makes the file durable does not promise that the file stays.
                raise StorageStateUnknownError("The commit record was changed, but perhaps not for good") from refusal
            return found
        if _position(found) != _position(previous) or not (in_doubt or refusal):
            return None
        if refusal is not None and not in_doubt:
            raise refusal
    raise StorageStateUnknownError("The storage does not say whether the commit record was changed")


def _read_back(store: RecordStore) -> Record | None:
    try:
        return store.read()
    except (StorageError, CorruptTimelineError) as error:
        raise StorageStateUnknownError("The commit record could not be read back") from error


def _position(record: Record | None) -> str:
    return record.position if record is not None else ""
