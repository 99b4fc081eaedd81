"""Extra metadata and requirements go with a batch into the commit that others share: who looks for his own entry finds it, and no position moves twice."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.tables import archive_all_but_the_newest

import pyhudi as hudi
from pyhudi.errors import CommitAbortedError, CommitRequirementError
from pyhudi_core.batches import combined, handed_in
from pyhudi_core.conflicts.requirement import EntryIsOurs, requirement_from
from pyhudi_core.consuming import CONSUMER_KEY
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.shared_commits import BATCHES_KEY, answers_in, extra_of, extras_of, holding
from pyhudi_core.transaction.layout import BATCHES

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
SHARES = {"pyhudi.commit.batch": True}


def data(*values: tuple[int, int]) -> pa.Table:
    return pa.table([[key for key, _ in values], [v for _, v in values]], schema=SCHEMA)


def output(folder: Path, **how: Any) -> hudi.HudiTable:
    hudi.create_table(str(folder / "into"), SCHEMA, "id", **how)
    return hudi.open_table(str(folder / "into"), options=SHARES)


def source(folder: Path, name: str, *values: tuple[int, int]) -> hudi.HudiTable:
    table = hudi.create_table(str(folder / name), SCHEMA, "id")
    table.upsert(data(*values))
    return table


def at_once(table: hudi.HudiTable, *calls: Any) -> list[object]:
    """The results, or errors, of calls in threads that hand their rows in while somebody leads; then one of them leads for all."""
    found: list[object] = [None] * len(calls)

    def run(at: int) -> None:
        try:
            found[at] = calls[at]()
        except Exception as error:
            found[at] = error

    context = table._opened.context()
    lead = combined._lead_lock(context).acquire(1)
    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(calls))]
    for thread in threads:
        thread.start()
    while len(handed_in.waiting(context)) < len(calls) and any(thread.is_alive() for thread in threads):
        threading.Event().wait(0.002)
    lead.release()
    for thread in threads:
        thread.join(60)
    return found


def waiting_batch(table: hudi.HudiTable, rows: pa.Table, extra: dict[str, str], *required: EntryIsOurs) -> str:
    """A batch whose writer has died elsewhere, so nobody knows that; returns its token."""
    context = table._opened.context()
    handed = handed_in.batch_of(context, rows, table.timeline, 60_000, extra, required)
    handed_in.hand_in(context, handed)
    return handed.token


def test_consumers_that_commit_at_once_share_a_commit_and_each_finds_its_own_checkpoint(tmp_path: Path) -> None:
    into = output(tmp_path)
    sources = [source(tmp_path, name, (at, at), (at + 10, at)) for at, name in enumerate(("one", "two"), 1)]
    consumers = [hudi.Consumer(table.name, table, into) for table in sources]
    batches = [consumer.next() for consumer in consumers]
    assert all(batches)
    made = at_once(into, *(lambda batch=batch: batch.commit(batch.rows().to_arrow()) for batch in batches if batch))
    assert [(commit.stats.rows_inserted, commit.changed) for commit in made] == [(2, True)] * 2  # type: ignore[attr-defined]
    assert len(into.timeline.commits) == 1
    for consumer, batch, commit in zip(consumers, batches, made, strict=True):
        assert batch is not None
        assert consumer.checkpoint == hudi.Checkpoint(consumer.source.name, batch.until)
        assert list(commit.extra_metadata) == [f"{CONSUMER_KEY}{consumer.name}"]  # type: ignore[attr-defined]
        assert consumer.next() is None
        assert into.commit_status(commit.token) == "committed"  # type: ignore[attr-defined]
    assert into.count() == 4


def test_two_processes_of_one_consumer_that_commit_at_once_move_its_checkpoint_once(tmp_path: Path) -> None:
    into, table = output(tmp_path), source(tmp_path, "one", (1, 1))
    batches = [hudi.Consumer("copy", table, into).next() for _ in range(2)]
    calls = [lambda batch=batch, at=at: batch.commit(data((1, at))) for at, batch in enumerate(batches) if batch]
    found = at_once(into, *calls)
    assert sorted(type(one).__name__ for one in found) == ["Commit", "CommitRequirementError"]
    [won] = [at for at, one in enumerate(found) if isinstance(one, hudi.Commit)]
    [lost] = [str(one) for one in found if not isinstance(one, hudi.Commit)]
    assert "no other process has moved the checkpoint of the consumer 'copy'" in lost
    assert into.to_arrow(["v"]).column("v").to_pylist() == [won]


def test_a_checkpoint_that_came_after_the_answer_of_the_writer_was_lost_is_found_by_its_next_look(
    tmp_path: Path,
) -> None:
    """The consumer hands its rows in and dies. Somebody commits them; the next process goes on behind them, and a repetition is refused."""
    into, table = output(tmp_path), source(tmp_path, "one", (1, 1))
    consumer = hudi.Consumer("copy", table, into)
    batch = consumer.next()
    assert batch is not None
    key = f"{CONSUMER_KEY}copy"
    said = hudi.Checkpoint(table.name, batch.until).to_json()
    token = waiting_batch(into, data((1, 1)), {key: said}, EntryIsOurs(key, batch.seen, "the checkpoint"))
    into.upsert(data((9, 9)))
    assert into.commit_status(token) == "committed"
    assert consumer.next() is None
    with pytest.raises(CommitRequirementError, match="has moved it to"):
        batch.commit(data((1, 5)))
    assert sorted(into.to_arrow(["v"]).column("v").to_pylist()) == [1, 9]


def test_a_batch_whose_requirement_fails_is_refused_alone(tmp_path: Path) -> None:
    into = output(tmp_path)
    seen = into.upsert(data((1, 1)), {"cursor": "1"}).completion_time
    late = waiting_batch(into, data((2, 2)), {"cursor": "2"}, EntryIsOurs("cursor", "", "the cursor"))
    fits = waiting_batch(into, data((3, 3)), {"cursor": "3"}, EntryIsOurs("cursor", seen, "the cursor"))
    into.upsert(data((4, 4)))
    assert [into.commit_status(token) for token in (late, fits)] == ["not_committed", "committed"]
    assert sorted(into.to_arrow(["id"]).column("id").to_pylist()) == [1, 3, 4]


def test_a_checkpoint_moves_although_all_rows_lose_against_newer_ones(tmp_path: Path) -> None:
    into, table = output(tmp_path, ordering="v"), source(tmp_path, "one", (1, 1))
    into.upsert(data((1, 100)))
    consumer = hudi.Consumer("copy", table, into)
    batch = consumer.next()
    assert batch is not None
    assert batch.commit(data((1, 1)))
    assert consumer.next() is None
    assert into.to_arrow(["v"]).column("v").to_pylist() == [100]


def test_extra_metadata_of_each_batch_is_found_by_who_looks_for_it_also_when_it_is_archived(tmp_path: Path) -> None:
    into = output(tmp_path, options={"hoodie.metadata.enable": False})
    made = at_once(
        into, *(lambda at=at: into.upsert(data((at, at)), {"run": f"{at}", f"of-{at}": "x"}) for at in range(3))
    )
    instants = {commit.instant for commit in made}  # type: ignore[attr-defined]
    assert len(instants) == 1
    for archived in (False, True):
        assert sorted(commit.extra["run"] for _, commit in into.commits_with("run")) == ["0", "1", "2"]
        [(instant, one)] = into.commits_with("of-1")
        assert {instant.requested_time} == instants
        assert one.extra["run"] == "1"
        assert len(list(into.commits_with("", ""))) == len(into.history())
        if not archived:
            archive_all_but_the_newest(into, data((50, 0)))


def test_a_watermark_counts_the_transactions_of_batches_that_share_a_commit(tmp_path: Path) -> None:
    into = output(tmp_path)
    at_once(into, *(lambda at=at: into.upsert(data((at, at)), hudi.transactions(into, at, at)) for at in (1, 2)))
    assert hudi.held_transactions(into) == [(1, 2)]
    assert hudi.transaction_watermark(into) == 2


@pytest.mark.parametrize("extra", [{"k": "x" * 5_000}, {'a"b': "1"}, {"a\nb": "1"}], ids=["long", "quotes", "a line"])
def test_extra_metadata_that_does_not_go_with_a_batch_makes_a_commit_of_its_own(
    extra: dict[str, str], tmp_path: Path
) -> None:
    into = output(tmp_path)
    commit = into.upsert(data((1, 1)), extra)
    assert not commit.token.startswith("batch-")
    assert extra.items() <= into.commit_metadata(into.timeline.commits[-1]).extra.items()


def test_a_commit_takes_as_many_batches_as_their_extra_metadata_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    into = output(tmp_path)
    for at in range(3):
        waiting_batch(into, data((at, at)), {"k": "x" * 100})
    context = into._opened.context()
    monkeypatch.setattr(handed_in, "_TAKEN_EXTRA", 202)
    assert len(handed_in.read(context, handed_in.waiting(context))[0]) == 2


def test_a_gate_that_refuses_is_asked_before_the_rows_are_handed_in(tmp_path: Path) -> None:
    into, table = output(tmp_path), source(tmp_path, "one", (1, 1))
    batch = hudi.Consumer("copy", table, into).next()
    assert batch is not None
    with pytest.raises(CommitAbortedError, match="gate refused"):
        batch.commit(data((1, 1)), gate=lambda: False)
    assert not (tmp_path / "into" / BATCHES).exists()
    assert into.count() == 0


def test_a_table_with_validators_moves_a_checkpoint_in_a_commit_that_they_judge(tmp_path: Path) -> None:
    output(tmp_path)
    into = hudi.open_table(str(tmp_path / "into"), options=SHARES, pre_commit=[hudi.in_range("v", 0, 10)])
    batch = hudi.Consumer("copy", source(tmp_path, "one", (1, 99)), into).next()
    assert batch is not None
    with pytest.raises(hudi.errors.PreCommitError):
        batch.commit(batch.rows().to_arrow())


@pytest.mark.parametrize(
    "said",
    ["[" * 100_000, "[]", "7", '{"t": [1, 1, 1, "x"]}', '{"t": [1, 1, 1, null]}', '{"t": {"error": "E"}}', '{"t": 3}'],
)
def test_nonsense_about_batches_has_no_extra_metadata(said: str) -> None:
    commit = CommitMetadata("upsert", extra={BATCHES_KEY: said})
    assert extras_of(commit) == [commit.extra]
    assert extra_of(commit, "t") == {}
    assert list(holding(commit, "x")) == []
    assert list(holding(commit, "")) == [commit]


def test_what_goes_with_a_batch_is_text_for_an_older_reader_of_the_counts() -> None:
    commit = CommitMetadata("upsert", extra={BATCHES_KEY: json.dumps({"a": [1, 1, 0, {"k": "v"}], "b": [2, 0, 2]})})
    assert answers_in(commit) == {"a": (1, 1, 0), "b": (2, 0, 2)}
    assert extra_of(commit, "a") == {"k": "v"}
    assert [found.extra["k"] for found in holding(commit, "k")] == ["v"]


def test_a_requirement_about_an_entry_is_read_back_from_json() -> None:
    one = EntryIsOurs("k", "2026", "the cursor")
    assert requirement_from(json.loads(json.dumps(one.to_dict()))) == one


@pytest.mark.parametrize("required", ['[{"type": "latest-instant-is", "instant": null}]', "7", '[{"type": "no"}]', "["])
def test_a_batch_with_requirements_that_do_not_go_with_it_is_answered_as_damaged(required: str, tmp_path: Path) -> None:
    into = output(tmp_path)
    token = waiting_batch(into, data((1, 1)), {})
    context = into._opened.context()
    [name] = handed_in.waiting(context)
    path = Path(into.location) / BATCHES / name
    with pa.ipc.open_stream(path.read_bytes()) as reader:
        rows = reader.read_all()
    notes = {**(rows.schema.metadata or {}), b"pyhudi.requires": required.encode()}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema.with_metadata(notes)) as writer:
        writer.write_table(rows.cast(rows.schema.with_metadata(notes)))
    path.write_bytes(sink.getvalue().to_pybytes())
    into.upsert(data((2, 2)))
    assert into.commit_status(token) == "not_committed"
    assert into.to_arrow(["id"]).column("id").to_pylist() == [2]
