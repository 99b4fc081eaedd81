"""This is the only module that deletes data files. The module also deletes files that ended instants left under ``.hoodie``."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyhudi_core.errors import UnsafePathError
from pyhudi_core.model.file_names import parse_data_file, split
from pyhudi_core.model.safe_path import safe_relative_path
from pyhudi_core.storage.base import Storage

_PORTION = 1_000
"""How many files are deleted at once: S3 deletes this many files with one call."""


def _nobody(_number: int) -> None:
    """Ignore the number of deleted files."""


def delete_data_files(
    storage: Storage, paths: Iterable[str], *, contained: bool = True, gone: Callable[[int], object] = _nobody
) -> list[str]:
    """Delete data files; paths are relative to the table. Returns the paths, in order.

    ``gone`` is called after each deletion of a portion, with the number of files in the portion.

    Raises `UnsafePathError` before anything is deleted if a path leaves the table or does not name a data file, and `DeletesFailedError` if the
    storage could not delete some files.
    """
    if not contained:  # for tests that show why the checks of `_safe` are needed
        return _delete(storage, list(paths), gone)
    return _delete(storage, _safe(paths), gone)


def _safe(paths: Iterable[str]) -> list[str]:
    """Return the paths if each of them names a data file of the table. Raises `UnsafePathError`."""
    safe = [safe_relative_path(path) for path in paths]
    wrong = [path for path in safe if parse_data_file(split(path)[1]) is None or path.startswith(".hoodie/")]
    if wrong:
        raise UnsafePathError(
            f"{len(wrong)} paths do not name data files, {wrong[0]!r} among them",
            path=wrong[0],
            hint="Nothing was deleted; the markers or the plan that name them are damaged.",
        )
    return safe


def delete_given_up(storage: Storage, paths: Iterable[str], *, contained: bool = True) -> list[str]:
    """Delete data files of a write that has ended without them, also if they are unfinished. Returns the paths, in order.

    A process that still writes such a file cannot publish it afterwards. Raises as `delete_data_files`.
    """
    given_up = list(paths)
    if given_up and storage.capabilities.temporaries:
        storage.discard_unfinished(_safe(given_up) if contained else given_up)
    return delete_data_files(storage, given_up, contained=contained)


def delete_leftovers(
    storage: Storage, paths: Iterable[str], parent: str, *, gone: Callable[[int], object] = _nobody
) -> None:
    """Delete files under ``.hoodie``, and then the folders of their instants directly below ``parent``, if the folders are empty.

    Raises as `delete_data_files`.
    """
    deleted = _delete(storage, [safe_relative_path(path) for path in paths], gone)
    below = (path[len(parent) + 1 :].partition("/")[0] for path in deleted if path.startswith(f"{parent}/"))
    for time in sorted(set(below)):
        storage.remove_empty_folders(f"{parent}/{time}")


def _delete(storage: Storage, paths: list[str], gone: Callable[[int], object]) -> list[str]:
    for start in range(0, len(paths), _PORTION):
        portion = paths[start : start + _PORTION]
        storage.delete_many(portion)
        gone(len(portion))
    return paths
