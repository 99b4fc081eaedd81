"""The commit protocol with every possible response to a conditional write, on simulated object stores and on S3 over real sockets.

P1, P2 and P3: what was acknowledged stays, what was refused is not there, and what is unknown can be asked for. "412" is a failed precondition,
"409" another write under way, "404" a missing object; each of them can also come after the write has happened.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import pytest
from botocore.exceptions import ClientError
from reliability import real_table
from reliability.counter_table import counter_world, increment
from reliability.real_table import TableWorld, world_with_rows
from reliability.service_runs import budget
from reliability.storages import (
    BATCH,
    BEFORE,
    COMPLETED,
    LOCK_FILE,
    NEW,
    RECORD,
    EchoingProxy,
    Interrupted,
    Place,
    S3Place,
    completed,
    upsert,
)
from reliability.test_two_writers import nothing_is_lost
from support.tables import orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import (
    CommitConflictError,
    InvalidOptionError,
    PreconditionFailedError,
)
from pyhudi_core.lock.storage_based import StorageBasedLockProvider
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.opening import create_at
from pyhudi_core.storage import s3_files
from pyhudi_core.testing import Bounds, Fault, History, Profile, SimOptions, SimWorld, explore
from pyhudi_core.transaction.publication import create_once
from pyhudi_core.transaction.record import Intent, Publication, Record, record_store, swap_settled

# --- somebody else was first


@pytest.mark.one_in(2)
@pytest.mark.row("O9")
def test_put_412_first_try_is_loss(place: Place) -> None:
    place.storage.put_if_absent("once", b"theirs")
    seen = place.storage.put("record", b"old")
    place.storage.put("record", b"theirs")
    place.forget()
    with pytest.raises(PreconditionFailedError):
        place.storage.put_if_absent("once", b"ours")
    with pytest.raises(PreconditionFailedError):
        place.storage.put_if_match("record", b"ours", seen.etag)
    assert place.writes("once") == place.writes("record") == 1, "a loss is not tried again"
    assert create_once(place.storage, "once", b"ours") is False
    assert (place.storage.get("once"), place.storage.get("record")) == (b"theirs", b"theirs")


@pytest.mark.one_in(2, first=1)
@pytest.mark.row("O9")
def test_a_decision_that_lost_is_taken_again_from_the_state_of_the_winner(place: Place) -> None:
    """The other writer decides between this one's look at the record and its swap: no lock holds it back here."""
    free = SimWorld(SimOptions(lock_excludes=False)).lock
    table = place.make(free)
    table.upsert(BEFORE)
    for data, expected in ((orders((2, "b", 20.0)), NEW), (orders((1, "a", 30.0)), [(1, 10.0), (2, 20.0), (3, 3.0)])):
        others: list[hudi.Commit] = []

        def decides(path: str, data: Any = data, others: list[hudi.Commit] = others) -> None:
            others.append(place.table(lock=free).upsert(data))

        late = place.table(Interrupted(place.storage, "put_if_match", RECORD, decides), free)
        commit = late.upsert(BATCH)
        assert others[0].completion_time < commit.completion_time
        assert rows(table, "id", "price") == [(1, 10.0), (2, 20.0), (3, 3.0)]
        assert commit.retries == (expected is not NEW), "planned anew only where the two touched one file group"


@pytest.mark.one_in(2)
def test_put_409_retries_and_does_not_count_as_conflict(place: Place) -> None:
    table = place.make()
    table.upsert(BEFORE)
    calls = (
        (".hoodie/.heartbeat/*", "put_if_absent"),
        ("*.commit.requested", "put_if_absent"),
        (RECORD, "put_if_match"),
        (COMPLETED, "put_if_absent"),
    )
    for number, (path, verb) in enumerate(calls):
        place.forget()
        place.goes_wrong("409", path, times=1 if place.is_simulated else 2, verb=verb)
        committed, error = upsert(table, orders((1, "a", 100.0 + number)))
        assert not isinstance(error, CommitConflictError)
        if not place.is_simulated:
            assert error is None, "the adapter repeats it"
        place.forget()
        assert (rows(table, "id", "price")[0] == (1, 100.0 + number)) == committed
        commit = table.upsert(orders((1, "a", 100.0 + number)))
        assert commit.retries == 0


@pytest.mark.parametrize("answer", [404, 412])
def test_put_404_on_if_match_is_loss(place: Place, answer: int, s3_proxy: EchoingProxy) -> None:
    """Amazon says 404 for a missing object, other stores 412: the caller hears the same, and nothing is made."""
    s3_proxy.missing_is = answer
    try:
        with pytest.raises(PreconditionFailedError):
            place.storage.put_if_match("missing", b"ours", "0" * 32)
        with pytest.raises(PreconditionFailedError):
            place.storage.delete_if_match("missing", "0" * 32)
        assert place.storage.head("missing") is None
    finally:
        s3_proxy.missing_is = 404


@pytest.mark.one_in(2, first=1)
def test_a_record_that_somebody_removed_costs_a_decision_and_no_commit(place: Place) -> None:
    table = place.make()
    table.upsert(BEFORE)
    path = record_path(place)
    damaged = place.table(Interrupted(place.storage, "put_if_match", RECORD, lambda _: place.storage.delete(path)))
    assert damaged.upsert(BATCH).retries == 0
    assert rows(table, "id", "price") == NEW
    assert completed(table) == 2


def record_path(place: Place) -> str:
    return next(info.path for info in place.storage.list(".hoodie/.aux/.pyhudi/commit_record"))


# --- what the client library and the store do by themselves


@pytest.mark.one_in(2)
def test_etag_aba_same_payload(place: Place) -> None:
    """If the tag is a hash of the content, equal bytes make an old tag valid again; so no bytes of a swap may be written twice."""
    first = place.storage.put("aba", b"same")
    place.storage.put("aba", b"other")
    place.storage.put("aba", b"same")
    if place.name in ("s3", "moto"):
        place.storage.put_if_match("aba", b"fooled", first.etag)
    else:
        with pytest.raises(PreconditionFailedError):
            place.storage.put_if_match("aba", b"fooled", first.etag)
    bodies: list[bytes] = []

    class Remembering(Interrupted):
        def __getattr__(self, name: str) -> Any:
            real = getattr(self._storage, name)
            if name not in ("put_if_match", "put_if_absent"):
                return real

            def call(path: str, data: bytes, *rest: Any) -> Any:
                if path == LOCK_FILE or fnmatchcase(path, RECORD):
                    bodies.append(data)
                return real(path, data, *rest)

            return call

    place.make()
    watched: Any = Remembering(place.storage, "", "", print)
    table = place.table(watched)
    table.upsert(BATCH)
    with table.begin("upsert") as write:
        write.write(BATCH)  # rolled back
    session = StorageBasedLockProvider(watched, place.runtime).acquire(0)
    session.renew()
    session.release()
    assert len(bodies) > 8
    assert len(set(bodies)) == len(bodies), "one body was written twice"


def test_sdk_retry_is_disabled(bucket: S3Place, s3_proxy: EchoingProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even environment variables enable the retries for conditional writes."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "9")
    monkeypatch.setenv("AWS_RETRY_MODE", "legacy")
    storage = S3Place(s3_proxy).storage
    for kind in ("lost_ack", "503_after"):
        s3_proxy.clear()
        s3_proxy.plan(kind, "PUT", f"/{kind}")  # type: ignore[arg-type]
        storage.put_if_absent(kind, b"ours")
        seen = [method for method, path in s3_proxy.seen if path.endswith(kind)]
        assert seen == ["PUT", "HEAD"], "sent once, then looked at"


@pytest.mark.parametrize("size", [100, 6 << 20], ids=["one_put", "multipart"])
def test_multipart_completed_conditionally(
    bucket: S3Place, s3_proxy: EchoingProxy, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A data file is made only if there is none, also in parts. Names with a salt keep that from ever happening (test_critique)."""
    monkeypatch.setattr(s3_files, "PART_SIZE", 5 << 20)
    output = bucket.storage.open_output("data")
    output.stream.write(b"o" * size)
    bucket.storage.put("data", b"theirs")
    with pytest.raises(PreconditionFailedError):
        output.close()
    assert bucket.storage.get("data") == b"theirs"
    assert not bucket.storage._client.list_multipart_uploads(Bucket="lake").get("Uploads"), "and no part stays behind"
    again = bucket.storage.open_output("lost")
    again.stream.write(b"o" * size)
    s3_proxy.plan("lost_ack", "POST" if size > 100 else "PUT", "uploadId" if size > 100 else "/lost")
    assert again.close().size == size, "an answer that got lost is not a lost race here either"


def test_the_store_itself_completes_parts_only_once(bucket: S3Place) -> None:
    """The behaviour of the store on which the adapter depends."""
    client, key = bucket.storage._client, "raw"
    upload = client.create_multipart_upload(Bucket="lake", Key=key)["UploadId"]
    part = client.upload_part(Bucket="lake", Key=key, UploadId=upload, PartNumber=1, Body=b"x")
    client.put_object(Bucket="lake", Key=key, Body=b"theirs")
    parts = {"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]}
    with pytest.raises(ClientError, match="PreconditionFailed"):
        client.complete_multipart_upload(
            Bucket="lake", Key=key, UploadId=upload, MultipartUpload=parts, IfNoneMatch="*"
        )
    client.abort_multipart_upload(Bucket="lake", Key=key, UploadId=upload)


# --- storages that promise less


def no_cas_home(**options: object) -> OpenedTable:
    world = SimWorld(SimOptions(profile=Profile.NO_CAS))
    return OpenedTable(world.storage, world.runtime, options)


def test_profile_without_cas_refuses_multi_writer() -> None:
    home = no_cas_home()
    table = create_at(home, real_table.SCHEMA, "id", "day")
    alone = OpenedTable(home.storage, home.runtime, {"concurrency": "single_writer"})
    single = hudi.HudiTable(alone)
    single.upsert(real_table.orders((1, "a", 1.0)))
    before = home.storage.list("")
    for refused in (lambda: table.upsert(real_table.orders((1, "a", 1.0))), lambda: table.delete_partitions(["day=a"])):
        with pytest.raises(InvalidOptionError, match='concurrency="single_writer"'):
            refused()
    assert home.storage.list("") == before, "nothing was written"
    assert table.scan().to_arrow().num_rows == 1, "reading is no problem"
    single.upsert(real_table.orders((1, "a", 2.0), (2, "b", 2.0)))
    with single.begin("upsert") as write:
        write.write(real_table.orders((3, "c", 3.0)))
    assert real_table.rows_of(single) == ((1, "a", 2.0), (2, "b", 2.0))


@pytest.mark.one_in(2)
@pytest.mark.row("T8")
@pytest.mark.parametrize("lock_excludes", [True, False], ids=["lock", "no_lock"])
def test_stale_list_never_loses_a_commit(lock_excludes: bool) -> None:
    """Any listing on which two writers decide may omit the latest changes."""
    report = explore(
        lambda: counter_world(Profile.S3, lock_excludes=lock_excludes),
        [increment, increment],
        nothing_is_lost,
        Bounds(preemptions=1, faults={Fault.STALE_LIST.value: 2}, schedules=budget(120)),
    )
    print(f"{report.schedules} schedules, {report.complete} complete, exhausted {report.exhausted}")
    report.assert_clean()


@pytest.mark.row("T8")
@pytest.mark.parametrize("times", [2, 4])
def test_a_listing_that_does_not_show_the_record_that_was_just_written_loses_no_commit(times: int) -> None:
    """The listing of a network disk may be old; the first commit has no older record that could show in it."""
    world = real_table.table_world(profile=Profile.LOCAL_POSIX)
    table = world.create()
    world.storage.inject(Fault.STALE_LIST, "list", ".hoodie/.aux/.pyhudi/commit_record*", times)
    table.upsert(real_table.orders((1, "a", 1.0)))
    assert not [fault for fault in world.storage.injections if fault.times]
    table.upsert(real_table.orders((1, "a", 2.0)))
    assert real_table.rows_of(world.table()) == ((1, "a", 2.0),)


@pytest.mark.row("T8")
def test_a_decision_on_a_listing_without_the_latest_one_does_not_replace_it() -> None:
    """On a disk the record is found by a listing; the file that a decision makes must not be there yet."""
    storage = SimWorld(SimOptions(profile=Profile.LOCAL_POSIX)).storage
    store = record_store(storage)
    publications = (Publication("completed", "staged"),)
    first, second = (Record(Intent(time, time, "commit", "i", f"{time}-n", publications), "lock", "") for time in "12")
    assert swap_settled(store, None, first)
    storage.inject(Fault.STALE_LIST, "list", ".hoodie/.aux/.pyhudi/commit_record*")
    seen = store.read()
    assert seen is None
    assert not swap_settled(store, seen, second)
    found = store.read()
    assert found is not None
    assert found.intent == first.intent


@pytest.mark.one_in(2, first=1)
@pytest.mark.row("T8")
@pytest.mark.parametrize("depth", [3, 14, 40])
def test_stale_list_of_data_files_never_loses_a_commit(depth: int) -> None:
    """Each listing of a commit that follows another one may be as old as from before that one: timeline, partitions, data files."""
    image = world_with_rows((1, "a", 1.0), profile=Profile.S3).storage.image()

    def world() -> TableWorld:
        made = real_table.table_world(profile=Profile.S3, image=image, start_ms=1_767_225_700_000)
        made.storage.stale_operations = depth
        return made

    def write(world: TableWorld) -> None:
        world.table().upsert(real_table.orders((1, "a", 10.0), (2, "b", 2.0)))
        world.table().upsert(real_table.orders((3, "a", 3.0), (4, "b", 4.0)))

    def check(world: TableWorld, history: History) -> None:
        commits = len(world.table().timeline.commits)
        after = [((1, "a", 1.0),), ((1, "a", 10.0), (2, "b", 2.0))]
        after.append((*after[1], (3, "a", 3.0), (4, "b", 4.0)))
        assert real_table.rows_of(world.table()) == after[commits - 1], history.error("a")
        assert commits == 3 or history.outcome("a") == "failed"

    bounds = Bounds(preemptions=0, faults={Fault.STALE_LIST.value: 1}, every_call=True)
    report = explore(world, [write], check, bounds).assert_clean()
    assert report.exhausted
    assert report.complete > 15
