"""The archived timeline, written: what a sleeper cannot break, and how layers are merged and swept."""

from __future__ import annotations

from typing import Any

import pytest
from support.history import PATH, flush, instant, names, row, time, writer_on
from support.wrapping import WrappedStorage

from pyhudi_core.formats.history_manifest import HistoryFile, decode_manifest, encode_manifest, manifest_name
from pyhudi_core.services.archival.history_layers import MAX_MERGED_BYTES, merge_layers, next_merge
from pyhudi_core.storage.base import Storage


def test_the_pointer_never_goes_back_when_a_sleeper_moves_it(storage: Storage) -> None:
    writer = writer_on(storage)
    flush(writer, row(1))
    late = {"done": False}

    class Sleepy(WrappedStorage):
        """Between the look at the pointer and its swap, others archive twice."""

        def __getattr__(self, name: str) -> Any:
            real = getattr(storage, name)
            if name not in ("put_if_match", "delete_if_match") or late["done"]:
                return real

            def call(path: str, *rest: Any) -> Any:
                if path.endswith("_version_") and not late["done"]:
                    late["done"] = True
                    flush(writer, row(3))
                    flush(writer, row(4))
                return real(path, *rest)

            return call

    sleeper = writer_on(Sleepy())  # type: ignore[arg-type]
    flush(sleeper, row(2))
    assert late["done"]
    state = writer.history.state()
    assert (state.number, state.version) == (4, 4)
    assert [i.requested_time for i in writer.history.begun_since("")[1]] == [time(n * 10) for n in (1, 2, 3, 4)]


def test_of_two_writers_from_one_state_one_decides(storage: Storage) -> None:
    one, other = writer_on(storage), writer_on(storage)
    flush(one, row(1))
    state = one.history.state()
    mine = one.add([row(2)], state)
    theirs = other.add([row(2), row(3)], state)
    assert mine.name != theirs.name
    assert one.decide(state, [*state.files, mine])
    assert not other.decide(state, [*state.files, theirs])
    other.discard(theirs)
    assert theirs.name not in names(storage)
    assert [i.requested_time for i in one.history.begun_since("")[1]] == [time(10), time(20)]


def test_a_taken_name_is_widened_and_never_written_over(storage: Storage) -> None:
    writer = writer_on(storage)
    state = writer.history.state()
    first = writer.add([row(1), row(2)], state)
    second = writer.add([row(1), row(2)], state)
    assert (first.first, first.last) == (time(10), time(20))
    assert (second.first, second.last) == (time(10), time(21))
    assert names(storage) == sorted([first.name, second.name])


@pytest.mark.row("B9")
def test_old_manifests_and_their_files_are_swept_and_three_are_kept(storage: Storage) -> None:
    writer = writer_on(storage)
    for number in range(1, 8):
        before = writer.history.state()
        flush(writer, row(number))
        writer.sweep(before)
    assert [name for name in names(storage) if name.startswith("manifest")] == [
        "manifest_5",
        "manifest_6",
        "manifest_7",
    ]
    assert len([name for name in names(storage) if name.endswith(".parquet")]) == 7
    assert merge_layers(writer, 7) == 1
    before = writer.history.state()
    for number in range(8, 11):
        flush(writer, row(number))
    writer.sweep(before)
    kept = {f.name for n in (9, 10, 11) for f in decode_manifest(storage.get(f"{PATH}/{manifest_name(n)}"), "m")}
    assert {name for name in names(storage) if name.endswith(".parquet")} == kept


def test_a_sleeping_sweep_removes_nothing_that_was_made_since(storage: Storage) -> None:
    writer = writer_on(storage)
    flush(writer, row(1))
    listed = writer.history.state()
    orphan = writer.add([row(2)], listed)
    listed = writer.history.state()
    assert orphan.name in listed.objects
    for number in range(3, 8):
        flush(writer, row(number))
    writer.discard(orphan)
    again = flush(writer, row(2))
    assert again.name == orphan.name, "the name is free again, and used by another file"
    storage.put(f"{PATH}/{manifest_name(writer.history.state().number + 1)}", encode_manifest([], "x"))
    writer.sweep(listed, kept=1)
    assert again.name in names(storage)


@pytest.mark.row("B9")
def test_layers_are_merged_as_they_fill(storage: Storage) -> None:
    writer = writer_on(storage)
    for number in range(1, 28):
        flush(writer, row(number))
        merge_layers(writer, 3)
    (only,) = writer.history.state().files
    assert only.layer == 3
    assert (only.first, only.last) == (time(10), time(270))
    assert only.completed == time(275)
    assert writer.history.begun_since("")[1] == [instant(n) for n in range(1, 28)]
    assert [r.metadata for r in writer.history.rows(writer.history.state(), only)] == [
        b"metadata %d" % n for n in range(1, 28)
    ]


def file(number: int, layer: int, size: int = 10) -> HistoryFile:
    return HistoryFile(f"{time(number)}_{time(number + 1)}_{layer}.parquet", size)


def test_the_oldest_files_of_the_lowest_full_layer_are_merged() -> None:
    low, high = [file(n, 0) for n in range(5)], [file(n, 1) for n in range(4)]
    assert next_merge([*low, *high], 3) == tuple(low[:3])
    assert next_merge([*low[:2], *high], 3) == tuple(high[:3])
    assert next_merge([*low[:2], *high[:2]], 3) == ()
    assert next_merge([file(n, 9) for n in range(20)], 3) == (), "there is no layer above the last"


def test_files_that_are_too_large_together_are_left_alone() -> None:
    half = MAX_MERGED_BYTES // 2
    assert next_merge([file(n, 0, half) for n in range(4)], 3) == (file(0, 0, half), file(1, 0, half))
    assert next_merge([file(n, 0, half + 1) for n in range(4)], 3) == ()
