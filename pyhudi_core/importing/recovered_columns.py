"""Find files of a table whose columns differ so much that it is unknown which columns are the same.

After ``ALTER TABLE`` a reader finds columns by numbers that only the timeline has. Footers and log blocks have names. Columns that were only added at
the end, or made wider, can be read by name. Any other difference may come from a column that was renamed, or dropped and added again. A read by name
would lose its values, or return values of another column.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import pyarrow as pa

from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.importing.recovery_questions import RecoveredFile, newest_bases, without_meta
from pyhudi_core.model.file_names import BaseFileName
from pyhudi_core.model.numbering import column_paths, parts_of
from pyhudi_core.model.schema import from_avro, reconcile

UNSEEN = (
    "changes of columns (table.alter, ALTER TABLE) that no file shows: after which nothing was written, a column that was dropped and added again, "
    "names that were exchanged. Columns are those of the newest file, and columns of one name count as the same"
)
_SHOWN = 5


def column_questions(
    found: Sequence[RecoveredFile], fixed: Collection[str], *, by_name: bool
) -> tuple[list[str], list[str]]:
    """Return the questions about the columns, and the facts that stay unknown.

    Args:
        found: all files.
        fixed: columns that no program renames or drops: key, ordering and partition columns.
        by_name: the answer that every column of every file is found by its name.
    """
    current = _current(found)
    schemas = _Schemas(fixed)
    asked = [*_differences(current, found, schemas), *_strange_parts(found, schemas)]
    older = [] if asked else _differences([file for file in found if file not in current], found, schemas)
    questions, unknown = [], [UNSEEN]
    if asked and not by_name:
        questions.append(
            f"were columns renamed, or dropped and added again? {_few(asked)} (by_name if every column of every file is found by its name. If not, "
            "the table cannot be recovered without wrong values: read the files one by one, and write their rows to a new table)"
        )
    if older:
        unknown.append(
            f"whether columns of older versions of files were renamed or dropped: {_few(older)}. Reads of the past find them by name"
        )
    return questions, unknown


class _Schemas:
    """The columns of files, parsed once for each text, without those in ``fixed``."""

    def __init__(self, fixed: Collection[str]) -> None:
        self._fixed = fixed
        self._parsed: dict[str, pa.Schema] = {}

    def of(self, text: str) -> pa.Schema:
        if text not in self._parsed:
            plain = without_meta(from_avro(text))
            self._parsed[text] = pa.schema([field for field in plain if field.name not in self._fixed])
        return self._parsed[text]


def _current(found: Sequence[RecoveredFile]) -> set[RecoveredFile]:
    """Return the files of the newest state of the table: newest base files, and logs that are not merged in them."""
    newest = newest_bases(found)
    return {
        file
        for file in found
        if file.group not in newest
        or file is newest[file.group]
        or (
            not isinstance(file.name, BaseFileName)
            and file.name.requested_time >= newest[file.group].name.requested_time
        )
    }


def _differences(files: Iterable[RecoveredFile], found: Sequence[RecoveredFile], schemas: _Schemas) -> list[str]:
    """Return how the columns of some files differ from the columns of newer files, unless columns were only added at the end or widened."""
    by_time = sorted((file for file in found if file.schema and not file.is_partial), key=_time)
    first: dict[str, RecoveredFile] = {}
    for file in sorted((file for file in files if file.schema and not file.is_partial), key=_time):
        first.setdefault(file.schema or "", file)
    last = {file.schema or "": file for file in by_time}
    return [
        f"{newer.path} is newer than {older.path} and {how}"
        for text, older in first.items()
        for other, newer in last.items()
        if text != other and _time(newer) > _time(older)
        for how in _difference(schemas.of(text), schemas.of(other))
    ]


def _strange_parts(found: Sequence[RecoveredFile], schemas: _Schemas) -> Iterator[str]:
    """Yield logs with values of some columns, if one of these columns is not in the newest file with all columns, or has a wider type there."""
    newest = max((file for file in found if file.schema and not file.is_partial), key=_time, default=None)
    if newest is None or newest.schema is None:
        return
    whole = schemas.of(newest.schema)
    for text, file in {file.schema: file for file in found if file.schema and file.is_partial}.items():
        part = schemas.of(text)
        if _reconciled(whole, part) != _leaves(whole):
            yield f"{file.path} has values of {', '.join(part.names)}, and {newest.path} has {', '.join(whole.names)}"


def _difference(older: pa.Schema, newer: pa.Schema) -> Iterator[str]:
    """Yield at most one text: how the newer columns differ from a schema to which columns were only added, or which was only widened."""
    wanted = _leaves(newer)
    if _reconciled(older, newer) == wanted:
        return
    before, after = dict(_leaves(older)), dict(wanted)
    missing, new = [path for path in before if path not in after], [path for path in after if path not in before]
    changed = [path for path, kind in before.items() if path in after and after[path] != kind]
    retyped = [f"{path} ({before[path]}, now {after[path]})" for path in changed]
    parts = [
        f"{what} {', '.join(paths)}"
        for what, paths in (("lacks", missing), ("has in addition", new), ("has other types of", retyped))
        if paths
    ]
    yield " and ".join(parts) if missing or retyped else f"has its columns in another order: {', '.join(after)}"


def _reconciled(older: pa.Schema, newer: pa.Schema) -> list[tuple[str, str]] | None:
    try:
        return _leaves(reconcile(older, newer))
    except SchemaMismatchError:
        return None  # no write by name can have changed one type into the other


def _leaves(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return paths with dots and types, in order. Nullability is ignored."""
    return [(path, "nested" if parts_of(kind) else str(kind)) for path, kind in column_paths(schema)]


def _time(file: RecoveredFile) -> str:
    return file.name.requested_time


def _few(texts: Sequence[str]) -> str:
    more = f"; and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return "; ".join(texts[:_SHOWN]) + more
