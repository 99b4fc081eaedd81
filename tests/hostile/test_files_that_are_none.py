"""Pipes, sockets, devices, folders, links and huge files in the place of any file of a table: right rows or a typed error, and never a wait."""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.special_files import NO_FILES
from support.tables import FAST, make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.errors import CorruptTimelineError, HudiError
from pyhudi_core.lock.storage_lock_file import LOCK_FILE
from pyhudi_core.opening import check_table

ROWS = [(1, 8.0), (2, 2.0), (3, 3.0)]
_WAITS_S = 10
"""A wait for a pipe does not end, so the limit may be long; a busy machine needs a second for some of the calls."""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table that has a file of each kind: history, a savepoint, plans, indexes, markers and staged files of an unfinished write, a lock."""
    place = tmp_path_factory.mktemp("rich") / "table"
    made = make(str(place), table_type="merge_on_read", options={"hoodie.metadata.enable": True})
    made.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    made.indexes.create("by_ts", "ts")
    for price in range(4):
        made.upsert(orders((1, "a", 3.0 + price)))
    made.savepoints.create()
    made.upsert(orders((1, "a", 8.0)))
    made.compaction.schedule()
    made.upsert(orders((3, "a", 3.0)))
    reopen(
        made, hoodie__keep__min__commits=3, hoodie__keep__max__commits=4, hoodie__clean__commits__retained=1
    ).archival.run()
    left = made.begin("upsert")
    left.__enter__()
    left.write(orders((9, "c", 1.0)))
    frozen = place.with_name("frozen")
    shutil.copytree(place, frozen)
    left.__exit__(None, None, None)
    shutil.copy(frozen / ".hoodie/hoodie.properties", frozen / ".hoodie/hoodie.properties.backup")
    (frozen / LOCK_FILE).parent.mkdir(exist_ok=True)
    (frozen / LOCK_FILE).write_text("{}")
    return frozen


def _one_of_each(table: Path) -> list[str]:
    """The newest file of each kind."""
    found = sorted(str(path.relative_to(table)) for path in table.rglob("*") if path.is_file())
    kinds = {re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d{2,}|_\d-|\d{4}-\d|staged/.*", "#", path): path for path in found}
    return list(kinds.values())


def _read(location: str) -> list[tuple[Any, ...]]:
    return rows(hudi.open_table(location), "id", "price")


def _write(location: str) -> list[tuple[Any, ...]]:
    hudi.open_table(location, FAST).upsert(orders((1, "a", 8.0)))
    return _read(location)


def _serve(location: str) -> list[tuple[Any, ...]]:
    table = hudi.open_table(location, FAST)
    table.compaction.run()
    table.archival.run()
    return _read(location)


def _check(location: str) -> list[tuple[Any, ...]]:
    """Examine the table. An examination never fails."""
    assert check_table(location).findings
    return ROWS


DOORS = [_read, _write, _serve, _check]


@contextmanager
def _without_waiting(what: str) -> Iterator[None]:
    def stop(*_: object) -> None:
        pytest.fail(f"{what}: waits", pytrace=False)

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(_WAITS_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _answer(door: Callable[[str], object], location: str) -> object:
    try:
        return door(location)
    except HudiError as error:
        return error


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", NO_FILES)
def test_what_is_no_file_gives_the_right_rows_or_a_typed_error(table: Path, tmp_path: Path, kind: str) -> None:
    """Each kind takes the places of a fifth of the files, and each of them is met by one door: which, changes from kind to kind."""
    files, number = _one_of_each(table), list(NO_FILES).index(kind)
    assert len(files) > 35, "these are not all the files"
    refused = 0
    for place in range(number % 5, len(files), 5):
        path, door = files[place], DOORS[(place // 5 + number) % len(DOORS)]
        copy = tmp_path / "table"
        shutil.copytree(table, copy)
        (copy / path).unlink()
        NO_FILES[kind](copy / path)
        with _without_waiting(f"{door.__name__} with a {kind} as {path}"):
            found = _answer(door, str(copy))
        assert isinstance(found, HudiError) or found == ROWS, f"{door.__name__} with a {kind} as {path}: {found}"
        refused += isinstance(found, HudiError)
        shutil.rmtree(copy)
    assert refused, "no file was missed"


@pytest.mark.parametrize("door", DOORS)
def test_an_instant_that_is_a_folder_is_never_left_out(
    table: Path, tmp_path: Path, door: Callable[[str], object]
) -> None:
    """Its commit would be missing, and nobody would know."""
    copy = tmp_path / "table"
    shutil.copytree(table, copy)
    newest = max((copy / ".hoodie/timeline").glob("*_*.deltacommit"))
    newest.unlink()
    newest.mkdir()
    found = _answer(door, str(copy))
    assert door is _check or isinstance(found, CorruptTimelineError)
    report = check_table(str(copy))
    assert any(one.where and one.where.endswith(newest.name) for one in report.findings), report.findings
