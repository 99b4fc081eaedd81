"""The file groups of a partition of the metadata table by the numbers in their ids. A key's hash names a number, so none may be missing."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from pyhudi_core.errors import CorruptHFileError
from pyhudi_core.file_groups.slicing import SlicePiece
from pyhudi_core.metadata_table import names

_NUMBERED = re.compile(r"(?P<family>.+?)-(?P<number>\d{4,})(-\d+)?")


def families_of(partition: str, pieces: Sequence[SlicePiece]) -> dict[str, list[SlicePiece]]:
    """Return the file groups that keys are hashed over together, in the order of their numbers.

    ``record-index-0003-0`` is number 3 of ``record-index``; release 0.11 wrote no last number. A record index that is kept by partition has
    a family for each partition, such as ``record-index-day=1``.
    Raises `CorruptHFileError` if a number is missing: keys would be looked for in other file groups than their own.
    """
    families: dict[str, dict[int, SlicePiece]] = defaultdict(dict)
    for piece in pieces:
        found = _NUMBERED.fullmatch(piece.file_id)
        if found is None:
            raise _damage(partition, f"has a file group without a number: {piece.file_id}")
        families[found["family"]][int(found["number"])] = piece
    for family, numbered in families.items():
        missing = {*range(max(numbered))} - {*numbered}
        if missing:
            raise _damage(partition, f"lacks the file group {family}-{min(missing):04d}")
    if not families:
        raise _damage(partition, "has no file groups")
    return {family: [numbered[number] for number in sorted(numbered)] for family, numbered in families.items()}


def _damage(partition: str, what: str) -> CorruptHFileError:
    return CorruptHFileError(
        f"A partition of the metadata table is listed but {what}",
        path=f"{names.FOLDER}/{partition}",
        hint=names.REBUILD,
    )
