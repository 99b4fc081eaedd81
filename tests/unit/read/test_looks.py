"""A look at a table that has not changed costs one request, and no commit is missed, whoever makes it."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from reliability.stories import Story, batch
from support.tables import make, orders, reopen

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.instant import time_after
from pyhudi_core.read.looks import LISTED_MS, TableLook, look, still
from pyhudi_core.table import HudiTable
from pyhudi_core.testing import Profile
from pyhudi_core.transaction.record import TaggedRecordStore


def calls_of_a_look(story: Story, seen: TableLook) -> tuple[list[tuple[str, str]], TableLook | None]:
    reader = story.writer()
    storage = reader.home().storage
    return reader.calls, still(storage, seen, story.now_ms)


def seen_by(story: Story) -> TableLook:
    return look(story.writer().home().context())[1]


@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
@pytest.mark.parametrize("later_s", [0, 2 * LISTED_MS // 1000])
def test_a_look_at_a_table_that_has_not_changed_is_one_request(profile: Profile, later_s: int) -> None:
    story = Story(profile)
    story.table((1, "a", 1))
    seen = seen_by(story)
    story.pass_time(later_s)
    calls, again = calls_of_a_look(story, seen)
    assert again is not None and len(calls) == 1
    by_record = profile is Profile.S3 and not later_s
    assert again == (seen if by_record else replace(seen, listed_ms=story.now_ms))


@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
def test_each_commit_shows_in_the_next_look(profile: Profile) -> None:
    story = Story(profile)
    table = story.table((1, "a", 1))
    writer = story.writer().open()
    for change in (
        lambda: writer.upsert(batch((1, "a", 2))),
        lambda: writer.delete(batch((1, "a", 2)).select(["id", "part"])),
        writer.savepoints.create,
        lambda: writer.insert_overwrite(batch((3, "a", 2))),
    ):
        seen = seen_by(story)
        change()
        assert calls_of_a_look(story, seen)[1] is None
    assert table.timeline


def test_a_commit_of_another_program_shows_after_a_minute_and_then_at_once() -> None:
    story = Story(Profile.S3)
    table = story.table((1, "a", 1))
    folder = story.writer().home().context().folder

    def foreign() -> None:
        newest = table.timeline.commits[-1]
        time = time_after(time_after(table.timeline.high_water_mark))
        story.storage.put(folder.file(replace(newest, requested_time=time, completion_time=time_after(time))), b"")

    seen = seen_by(story)
    assert seen.record
    foreign()
    assert calls_of_a_look(story, seen)[1] == seen
    story.pass_time(LISTED_MS / 1000)
    assert calls_of_a_look(story, seen)[1] is None
    now = seen_by(story)
    assert not now.record, "the record says nothing of a program that does not write it"
    foreign()
    assert calls_of_a_look(story, now)[1] is None


def test_a_commit_that_is_decided_and_not_published_is_not_taken_for_the_newest() -> None:
    story = Story(Profile.S3)
    story.table((1, "a", 1))
    writer = story.writer()
    looked: list[TableLook] = []
    writer.pause_before("put_if_absent", ".commit", lambda: None)  # requested
    table = writer.open()
    writer.watch(
        lambda verb, path: (
            looked.append(seen_by(story)) if verb == "put_if_absent" and path.endswith(".commit") else None
        )
    )
    table.upsert(batch((1, "a", 5)))
    assert len(looked) == 1 and not looked[0].record
    assert calls_of_a_look(story, looked[0])[1] is None, "it is published now"


def test_what_was_seen_passes_through_text_and_nothing_else_does() -> None:
    seen = TableLook("folder", "digest", 5, "tag")
    assert TableLook.of(seen.to_json()) == seen
    for text in ("", "[]", "{}", "null", '["a","b","c","d"]', '["",  "b", 1, ""]', None, 5, '["a","b",true,"d"]'):
        assert TableLook.of(text) is None


def test_waiting_ends_with_the_commit_and_with_the_time() -> None:
    story = Story(Profile.S3)
    table = story.table((1, "a", 1))
    token = table.snapshot_token()
    waiting = HudiTable(story.writer().home())
    begun = story.now_ms
    assert waiting.wait(after=token, timeout=5) is None
    assert story.now_ms - begun == 5000
    story.at(story.now_ms + 2500, lambda: story.writer().open().upsert(batch((1, "a", 2))))
    found = waiting.wait(after=token, timeout=60)
    assert found == table.timeline.commits[-1]
    assert waiting.wait(after=token, timeout=0) == found, "it is there already"
    assert waiting.wait(timeout=0) is None
    for wrong in ({"timeout": -1}, {"every": -0.5}, {"timeout": float("nan")}):
        with pytest.raises(InvalidOptionError):
            waiting.wait(**wrong)


def test_a_wait_without_an_end_sees_the_first_commit(location: str) -> None:
    table = make(location)
    writer = threading.Timer(0.05, lambda: reopen(table).upsert(orders((1, "a", 1.0))))
    writer.start()
    found = table.wait(every=0.01)
    writer.join()
    assert found == table.timeline.commits[-1]


def test_a_consumer_waits_for_a_batch() -> None:
    story = Story(Profile.S3)
    source = story.table((1, "a", 1))
    into = hudi.create_table("memory://copies-of-a-story", source.schema, "id", "part")
    consumer = hudi.Consumer("copy", source, into)
    first = consumer.wait(timeout=0)
    assert first is not None
    first.commit(first.rows())
    assert consumer.wait(timeout=3) is None
    story.at(story.now_ms + 1500, lambda: story.writer().open().upsert(batch((2, "a", 2))))
    begun = story.now_ms
    second = consumer.wait(timeout=60)
    assert second is not None and second.rows().to_arrow()["id"].to_pylist() == [2]
    assert story.now_ms - begun <= 4000


def test_the_record_of_the_sweep_is_the_tagged_one() -> None:
    story = Story(Profile.S3)
    story.table((1, "a", 1))
    record = TaggedRecordStore(story.storage).read()
    assert record is not None and seen_by(story).record == record.position
