"""One decision publishes all files of a commit, in their order: what the metadata table's commit will need."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from support.failing import FailingStorage
from support.tables import make, orders

import pyhudi_core as hudi
from pyhudi_core.errors import CommitStateUnknownError, StorageError, StorageStateUnknownError
from pyhudi_core.model.instant import State
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.opened_table.protections import Protections
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.opening import create_at
from pyhudi_core.runtime.system import SystemClock, system_runtime
from pyhudi_core.storage.memory import MemoryBucket, MemoryStorage
from pyhudi_core.table import HudiTable
from pyhudi_core.timeline.active import TimelineFolder
from pyhudi_core.transaction import decision
from pyhudi_core.transaction.decision import publish_intent
from pyhudi_core.transaction.publication import create_once
from pyhudi_core.transaction.record import Intent, Publication, PublicationKind, Record, swap_settled


def decided(table: hudi.HudiTable) -> tuple[TableContext, Intent]:
    """An announced write whose intent names two files, first of all one outside the table's own timeline."""
    context = table._opened.context()
    table.upsert(orders((1, "a", 1.0)))
    instant = table.timeline.commits[-1]
    requested = instant.requested_time[:-1] + "9"
    inflight = replace(instant, requested_time=requested, state=State.INFLIGHT, completion_time=None)
    context.storage.put(context.folder.file(inflight), b"")
    completed = replace(inflight, state=State.COMPLETED, completion_time=requested[:-3] + "999")
    context.storage.put(".hoodie/.aux/.pyhudi/staged/first", b"first")
    context.storage.put(".hoodie/.aux/.pyhudi/staged/second", b"")
    files = (
        Publication(".hoodie/metadata/.hoodie/timeline/first.deltacommit", ".hoodie/.aux/.pyhudi/staged/first"),
        Publication(context.folder.file(completed), ".hoodie/.aux/.pyhudi/staged/second"),
    )
    intent = Intent(
        requested, completed.completion_time or "", "commit", context.folder.file(inflight), f"{requested}-n", files
    )
    return context, intent


@pytest.mark.row("K8")
def test_all_files_of_a_decision_are_published_in_order(location: str) -> None:
    context, intent = decided(make(location))
    written: list[str] = []

    class Watched(type(context.storage)):  # type: ignore[misc]
        def put_if_absent(self, path: str, data: bytes):
            written.append(path)
            return super().put_if_absent(path, data)

    storage = Watched(context.storage.location)
    watched = context.on(storage, TimelineFolder(storage, context.folder.path))
    publish_intent(watched, intent)
    assert written == [publication.path for publication in intent.publications]
    assert context.storage.get(intent.publications[0].path) == b"first"
    publish_intent(watched, intent)
    assert len(written) == 2, "what is there is not written again"


@pytest.mark.row("K8")
def test_a_decision_that_was_half_published_is_finished_by_anybody(location: str) -> None:
    context, intent = decided(make(location))
    first = intent.publications[0]
    context.storage.put(first.path, context.storage.get(first.staged))
    publish_intent(context, intent)
    assert all(context.storage.head(publication.path) is not None for publication in intent.publications)


@pytest.mark.parametrize("unclear", [2, 3])
def test_an_unclear_creation_is_tried_three_times(unclear: int) -> None:
    storage = MemoryStorage("memory://unclear", MemoryBucket(), SystemClock())
    calls: list[str] = []

    def lost(verb: str, path: str) -> bool:
        calls.append(verb)
        return len(calls) <= unclear

    failing = FailingStorage(storage, lost, error=StorageStateUnknownError)
    if unclear < 3:
        assert create_once(failing, "a", b"ours")
        assert storage.get("a") == b"ours"
    else:
        with pytest.raises(StorageStateUnknownError):
            create_once(failing, "a", b"ours")
    assert calls == ["put_if_absent"] * 3


def test_the_first_commit_record_has_number_one(location: str) -> None:
    table = make(location)
    for number in (1, 2):
        table.upsert(orders((number, "a", 1.0)))
        record = table._opened.context().storage.get(f".hoodie/.aux/.pyhudi/commit_record.{number:012d}.json")
        assert table.timeline.commits[-1].requested_time.encode() in record


def test_a_swap_that_the_storage_refuses_is_told_at_once_and_is_in_no_doubt() -> None:
    sent: list[Record] = []

    class Full:
        """A storage that is full: nothing that is sent arrives, and it says so."""

        def read(self, known: Record | None = None) -> Record | None:
            return None

        def swap(self, previous: Record | None, record: Record) -> None:
            sent.append(record)
            raise StorageError("No space is left", path="commit_record")

        def sweep(self) -> None:
            raise NotImplementedError

    with pytest.raises(StorageError) as caught:
        swap_settled(Full(), None, Record(Intent("1", "2", "commit", "f", "1-n", ()), "lock"))
    assert not isinstance(caught.value, StorageStateUnknownError)
    assert len(sent) == 1


@pytest.mark.parametrize(("kind", "alone"), [("create", True), ("replace", False), ("properties", False)])
def test_only_creations_may_be_published_without_the_lock(kind: str, alone: bool) -> None:
    created = Publication("a", "staged/a")
    other = Publication("b", "staged/b", PublicationKind(kind))
    assert Intent("1", "2", "commit", "f", "1-n", (created, other)).only_creates is alone
    assert Intent("1", "2", "commit", "f", "1-n", (other, created)).only_creates is alone


def test_every_protection_is_on() -> None:
    assert [item.name for item in fields(Protections) if getattr(Protections(), item.name) is not True] == []


def test_a_part_of_a_staged_object_is_published_and_no_more() -> None:
    part = Publication("a", "staged", PublicationKind.REPLACE, part=(2, 3))
    assert part.cut(b"0123456") == b"234"
    assert Publication.from_json(part.to_json()) == part
    assert part.to_json()["kind"] not in set(PublicationKind), (
        "a release that knows no parts must not publish all of it"
    )
    empty = Publication("a", "staged", PublicationKind.REPLACE, part=(2, 0))
    assert Publication.from_json(empty.to_json()).cut(b"0123456") == b""
    for wrong in ([1], [1, 2, 3], [-1, 2], [True, 2], ["1", 2], None):
        with pytest.raises((KeyError, TypeError, ValueError)):
            Publication.from_json({**part.to_json(), "part": wrong})


def test_any_process_makes_a_metadata_table_from_what_its_maker_staged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The maker dies when it has decided: the next writer publishes each file from its part of the one staged object."""
    storage = MemoryStorage("memory://half-made", MemoryBucket(), SystemClock())
    plain = OpenedTable(storage, system_runtime(), {"hoodie.metadata.enable": False})
    create_at(plain, orders((1, "a", 1.0)).schema, "id", "day", "ts")

    def dies(*_: object) -> bool:
        raise StorageError("the process is gone")

    with monkeypatch.context() as patched:
        patched.setattr(decision, "create_once", dies)
        patched.setattr(decision, "replace_once", dies)
        with pytest.raises(CommitStateUnknownError):
            HudiTable(plain).metadata_table.create()
    staged = storage.list(".hoodie/.aux/.pyhudi/staged/")
    assert len(staged) == 1
    assert not storage.list(".hoodie/metadata/")
    table = HudiTable(OpenedTable(storage, system_runtime(), {}))
    table.upsert(orders((1, "a", 1.0)))
    assert "files" in table.config.metadata_partitions
    assert table.check().ok
