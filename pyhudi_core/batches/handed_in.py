"""Files of batches that wait for a commit, and the answers in commits (``model/shared_commits.py``)."""

from __future__ import annotations

import json
import logging
import re
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from pyhudi_core import errors
from pyhudi_core.conflicts.requirement import CommitRequirement, EntryIsOurs, requirement_from
from pyhudi_core.errors import (
    CommitAbortedError,
    CorruptionError,
    DataError,
    HudiError,
    ObjectNotFoundError,
)
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import BEFORE_ALL, Instant, epoch_ms
from pyhudi_core.model.shared_commits import BATCHES_KEY, Counts, answers_in
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.storage.at_once import each
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.timeline.commit_search import commits_holding
from pyhudi_core.transaction.layout import BATCHES

LARGEST_BYTES, LARGEST_EXTRA = 4 << 20, 4 << 10
"""A batch with more bytes of rows, or characters of extra metadata, makes a commit of its own."""
_TAKEN_BYTES, _TAKEN_EXTRA = 64 << 20, 256 << 10
_TAKEN = 1_000
_LOOKED_AT = 2_000
"""The number of files in the folder of batches that a leader looks at. More never wait; what else is there must not take time at each look."""
_MOST_FILE_BYTES, _READ_BYTES = 16 << 20, 128 << 20
"""The most bytes of a batch's file, and of the files that are read for one commit."""
_ROWS = ".rows"
_TOKEN = re.compile("batch-([0-9]{17})-[0-9a-f]{32}")
_NAME = re.compile(r"[0-9]{17}_(batch-[0-9]{17}-[0-9a-f]{32})\.rows")
_log = logging.getLogger(__name__)
_UNTIL, _PROCESS, _EXTRA, _REQUIRES = b"pyhudi.until_ms", b"pyhudi.process", b"pyhudi.extra", b"pyhudi.requires"


@dataclass(frozen=True, slots=True)
class HandedIn:
    """A waiting batch.

    Attributes:
        token: the name of the batch, ``batch-<completion time>-<nonce>``. No commit up to that time contains the batch.
        name: the name of its file; the names sort by arrival.
        rows: the rows, with the table's columns and types.
        until_ms: the time (epoch milliseconds) at which its writer gives up. Afterwards no leader begins to commit the batch.
        process: the writer, from `Process.identity`.
        extra: the extra metadata of the batch, which the commit stores with its token.
        requirements: the writer's requirements for the commit. If one fails, only this batch is refused.
    """

    token: str
    name: str
    rows: pa.Table = field(repr=False)
    until_ms: int = 0
    process: str = ""
    extra: Mapping[str, str] = field(default_factory=dict)
    requirements: tuple[EntryIsOurs, ...] = ()

    @property
    def path(self) -> str:
        return f"{BATCHES}/{self.name}"


def is_token(token: object) -> bool:
    """Say whether a text is the token of a batch."""
    return isinstance(token, str) and _TOKEN.fullmatch(token) is not None


def completed_before(tokens: Iterable[str]) -> str:
    """Return the completion time up to which no commit answers one of these batches."""
    return min(token.split("-")[1] for token in tokens)


def travels(extra: Mapping[str, str], requirements: Sequence[CommitRequirement]) -> bool:
    """Return whether extra metadata and requirements can be stored with a batch.

    JSON must not change the bytes of a key, because a search compares these bytes.
    """
    plain = all(json.dumps(key, ensure_ascii=False) == f'"{key}"' for key in extra)
    return plain and _length(extra) <= LARGEST_EXTRA and all(isinstance(one, EntryIsOurs) for one in requirements)


def _length(extra: Mapping[str, str]) -> int:
    return sum(len(key) + len(value) for key, value in extra.items())


def batch_of(
    context: TableContext,
    rows: pa.Table,
    seen: Timeline,
    lasts_ms: int,
    extra: Mapping[str, str] = MappingProxyType({}),
    requirements: Sequence[CommitRequirement] = (),
) -> HandedIn:
    """Return a batch of rows with a new token. ``seen``: the timeline that the caller has read. ``lasts_ms``: how long the writer will wait."""
    digits = len(BEFORE_ALL)
    # A time of another writer may have more or fewer digits. The time in the token is not later than that time.
    newest = (seen.newest_completion or BEFORE_ALL).ljust(digits, "0")[:digits]
    token = f"batch-{newest}-{context.runtime.ids.uuid().replace('-', '')}"
    name = f"{context.now()}_{token}{_ROWS}"
    until_ms = context.runtime.clock.now_ms() + lasts_ms
    own = tuple(one for one in requirements if isinstance(one, EntryIsOurs))
    return HandedIn(token, name, rows, until_ms, context.runtime.process.identity(), extra, own)


def hand_in(context: TableContext, batch: HandedIn) -> None:
    """Write the file of a batch. It need not survive a power failure, because nobody waits for the batch afterwards."""
    notes: dict[bytes | str, bytes | str] = {
        _UNTIL: str(batch.until_ms),
        _PROCESS: batch.process,
        _EXTRA: json.dumps(dict(batch.extra)),
    }
    notes[_REQUIRES] = json.dumps([one.to_dict() for one in batch.requirements])
    schema = batch.rows.schema.with_metadata(notes)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(batch.rows.cast(schema).combine_chunks())  # a file of many small parts would be large
    context.root.without_fsync().put(batch.path, sink.getvalue().to_pybytes())


def waits(context: TableContext, batch: HandedIn) -> bool:
    """Return whether a batch has no answer yet. Only one name is requested, because each writer asks often."""
    return context.root.head(batch.path) is not None


def waiting(context: TableContext, own: str = "") -> dict[str, int]:
    """Return the file names of waiting batches, in the order of arrival, with the size of each file.

    If the folder is full of other files, some batches are missing. So the batch of the caller (``own``, the name of its file) is always among them.
    """
    found = context.root.list_some(BATCHES, _LOOKED_AT)
    if len(found) >= _LOOKED_AT:
        _log.warning(
            "The folder of waiting batches of %s has %d files or more, and not all are looked at: delete those that are no batches in %s",
            context.table,
            _LOOKED_AT,
            BATCHES,
        )
    sizes = {info.path.rpartition("/")[2]: info.size for info in found}
    names = {name for name, size in sizes.items() if _NAME.fullmatch(name) and size <= _MOST_FILE_BYTES}
    return {name: sizes.get(name, 0) for name in sorted(names | ({own} if own else set()))}


def find(context: TableContext, token: str) -> list[str]:
    """Return the file name of a waiting batch, among all files of the folder; empty if it does not wait."""
    names, _ = context.root.list_names(BATCHES)
    return [name for name in names if _token_in(name) == token]


@dataclass(frozen=True, slots=True)
class LastShared:
    """The newest commit, if it has answered more than one batch: the number of batches, the time, and the duration."""

    completed: str
    batches: int
    took_ms: int

    def came(self, names: Iterable[str]) -> int:
        """Return how many of these files have arrived since then, by the clocks of their writers."""
        return sum(name > self.completed for name in names)


def last_shared(context: TableContext) -> LastShared | None:
    """Return the newest commit as a shared commit; None if it has not answered more than one batch."""
    newest = max(context.folder.load().commits, key=lambda instant: instant.completion_time or "", default=None)
    if newest is None or newest.completion_time is None:
        return None
    batches = len(answers_in(context.folder.read_commit(newest)))
    began, ended = (epoch_ms(time, utc=context.utc) or 0 for time in (newest.requested_time, newest.completion_time))
    return LastShared(newest.completion_time, batches, max(0, ended - began)) if batches > 1 else None


def read(context: TableContext, names: Mapping[str, int]) -> tuple[list[HandedIn], dict[str, HudiError]]:
    """Read as many batches as one commit takes. Returns the batches to commit, and the errors of the others by token.

    ``names``: as `waiting` returns them. Omits a batch whose file no longer exists. A batch is not committed if its writer has ended or given up,
    because its rows would be written after the rows of later writes.
    """
    found = each(context.root, context.runtime.executor, partial(_read, context), _first(names))
    taken: list[HandedIn] = []
    errors: dict[str, HudiError] = {}
    size = length = 0
    for batch, error in found:
        size += batch.rows.nbytes if batch is not None else 0
        length += _length(batch.extra) if batch is not None else 0
        if error is not None:
            errors[error[0]] = error[1]
        elif batch is not None and is_outdated(context, batch):
            errors[batch.token] = CommitAbortedError(
                "Its writer had ended or given up", table=context.table, hint="Write it again."
            )
        elif batch is not None and ((size <= _TAKEN_BYTES and length <= _TAKEN_EXTRA) or not taken):
            taken.append(batch)
        elif batch is not None:
            break
    return taken, errors


def _first(names: Mapping[str, int]) -> list[str]:
    """Return the first files that are read together."""
    found: list[str] = []
    size = 0
    for name, of_file in islice(names.items(), _TAKEN):
        size += of_file
        if found and size > _READ_BYTES:
            break
        found.append(name)
    return found


def _read(context: TableContext, name: str) -> tuple[HandedIn | None, tuple[str, HudiError] | None]:
    match = _NAME.fullmatch(name)
    assert match is not None
    path = f"{BATCHES}/{name}"
    try:
        data = context.root.get(path)
    except ObjectNotFoundError:
        return None, None
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            return HandedIn(match[1], name, _rows(reader, data), **_notes(reader.schema.metadata)), None
    except (
        pa.ArrowException,
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        struct.error,
        HudiError,
    ) as error:
        what = f"The batch cannot be read: {error!s:.500}"
        return None, (match[1], CorruptionError(what, table=context.table, path=path, hint="Write it again."))


def _rows(reader: pa.ipc.RecordBatchStreamReader, data: bytes) -> pa.Table:
    """Return the rows in a file, which have no more bytes than the file. Raises `ValueError` for what no writer hands in."""
    if not all(_is_plain(column.type) for column in reader.schema):
        raise ValueError("it has a type that no batch has")
    messages = pa.ipc.MessageReader.open_stream(pa.py_buffer(data))
    messages.read_next_message()  # the schema
    for message in messages:
        if message.type != "record batch" or _is_compressed(message.metadata.to_pybytes()):
            raise ValueError("its rows are compressed")
    rows = reader.read_all()
    if rows.num_rows > len(data):
        raise ValueError(f"it is said to have {rows.num_rows} rows")
    rows.validate(full=True)  # otherwise places in it may lead anywhere in the memory of this process
    return rows


def _is_plain(kind: pa.DataType) -> bool:
    """Say whether a type has each of its values in the file, and not many times the same one."""
    types = pa.types
    if types.is_struct(kind):
        return all(_is_plain(field.type) for field in kind)
    if types.is_map(kind):
        return _is_plain(kind.key_type) and _is_plain(kind.item_type)
    if types.is_list(kind) or types.is_large_list(kind):
        return _is_plain(kind.value_type)
    texts = types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind)
    return bool(texts or types.is_primitive(kind) or types.is_decimal(kind) or types.is_fixed_size_binary(kind))


def _is_compressed(message: bytes) -> bool:
    """Say whether the record batch in a message of Arrow is compressed (Arrow's ``Message.fbs``, which Arrow has checked): it names a compression."""
    header = _field(message, struct.unpack_from("<I", message)[0], 2)
    return bool(_field(message, header + struct.unpack_from("<I", message, header)[0], 3))


def _field(message: bytes, table: int, number: int) -> int:
    """Return the place of a field of a FlatBuffers table; 0 if the table does not have it."""
    listing = table - struct.unpack_from("<i", message, table)[0]
    (size,) = struct.unpack_from("<H", message, listing)
    place = 4 + 2 * number
    (offset,) = struct.unpack_from("<H", message, listing + place) if place < size else (0,)
    return table + offset if offset else 0


def _notes(said: Mapping[bytes, bytes]) -> dict[str, Any]:
    extra = {str(key): str(value) for key, value in json.loads(said[_EXTRA]).items()}
    requirements = tuple(requirement_from(one) for one in json.loads(said[_REQUIRES]))
    if not all(isinstance(one, EntryIsOurs) for one in requirements):
        raise ValueError("it requires what does not go with a batch")
    until_ms, process = int(said[_UNTIL]), said[_PROCESS].decode()
    return {"until_ms": until_ms, "process": process, "extra": extra, "requirements": requirements}


def is_outdated(context: TableContext, batch: HandedIn) -> bool:
    """Return whether the writer of a batch no longer waits."""
    ended = bool(batch.process) and context.runtime.process.is_gone(batch.process)
    return ended or context.runtime.clock.now_ms() >= batch.until_ms


def remove(context: TableContext, tokens: Collection[str], names: Iterable[str]) -> None:
    """Remove the files of answered batches. ``names``: the names of all waiting files."""
    known = set(tokens)
    context.root.delete_many([f"{BATCHES}/{name}" for name in names if _token_in(name) in known])


def _token_in(name: str) -> str:
    match = _NAME.fullmatch(name)
    return match[1] if match else ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a commit to a batch.

    Attributes:
        instant, commit: the commit.
        outcome: the numbers of rows, inserted keys and updated keys; or the error of a refused batch.
    """

    instant: Instant
    commit: CommitMetadata
    outcome: tuple[int, int, int] | HudiError


def answers(context: TableContext, tokens: Collection[str]) -> dict[str, Answer]:
    """Return the answers of commits by token. Leaves out batches without an answer. Lists the timeline once."""
    found: dict[str, Answer] = {}
    wanted = set(tokens)
    for instant, commit in commits_holding(context.folder, BATCHES_KEY, completed_before(tokens)) if wanted else ():
        found |= {token: answer for token, answer in said(context, instant, commit).items() if token in wanted}
        if len(found) == len(wanted):
            break
    return found


def said(context: TableContext, instant: Instant, commit: CommitMetadata) -> dict[str, Answer]:
    """Return the answers of one commit by token."""
    return {
        token: Answer(instant, commit, one if isinstance(one, tuple) else _error(context, one))
        for token, one in answers_in(commit).items()
    }


def encoded(
    counts: Mapping[str, Counts], refused: Mapping[str, HudiError], group: Sequence[HandedIn] = ()
) -> dict[str, str]:
    """Return the extra metadata entry with which a commit answers batches."""
    brought = {batch.token: [batch.extra] for batch in group if batch.extra}
    errors_said = {token: _said(error) for token, error in refused.items()}
    found = {**{token: [*one, *brought.get(token, [])] for token, one in counts.items()}, **errors_said}
    return {BATCHES_KEY: json.dumps(found, separators=(",", ":"), ensure_ascii=False)}


def _said(error: HudiError) -> dict[str, Any]:
    return {"error": type(error).__name__, "message": error.message, "hint": error.hint}


def _error(context: TableContext, said: Mapping[str, Any]) -> HudiError:
    message, hint = str(said.get("message", "The batch was refused")), str(said.get("hint") or "") or None
    kind = getattr(errors, str(said.get("error")), None)
    if isinstance(kind, type) and issubclass(kind, HudiError):
        try:
            return kind(message, table=context.table, hint=hint)
        except TypeError:  # this error needs more arguments than a commit stores
            pass
    return DataError(message, table=context.table, hint=hint)
