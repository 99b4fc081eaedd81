"""What the lock of a Hive Metastore does without a server; `tests/locks/test_hive_metastore.py` has the real one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError, LockServerError
from pyhudi_core.lock.clients.hive_metastore import HiveMetastore, servers_of
from pyhudi_core.lock.observing import Observed
from pyhudi_core.lock.servers.hive_metastore import HiveLockServer, HiveOptions, _seconds
from pyhudi_core.options import WriteOptions
from pyhudi_core.runtime.system import system_runtime


@pytest.mark.row("O4")
def test_hudis_properties_name_the_lock_of_a_metastore(tmp_path: Path) -> None:
    options = {
        "hoodie.write.lock.provider": "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider",
        "hoodie.write.lock.hivemetastore.uris": "thrift://b:9083, thrift://a",
        "hoodie.write.lock.hivemetastore.database": "Sales",
        "hoodie.write.lock.hivemetastore.table": "Orders",
        "hoodie.write.lock.heartbeat_interval_ms": "30000",
    }
    found = WriteOptions.parse(options)
    assert (found.lock.provider, found.lock.of(HiveOptions).heartbeat_ms) == ("hive_metastore", 30_000)
    where = HiveMetastore(servers_of(found.lock.of(HiveOptions).uris), 1.0)
    runtime = system_runtime(1)
    lock = HiveLockServer(where, "Sales", "Orders", 60.0, runtime.clock, runtime.process)
    assert lock.identity == "hive_metastore:a:9083,b:9083/sales.orders"
    del options["hoodie.write.lock.hivemetastore.table"]
    with pytest.raises(InvalidOptionError, match=r"needs the option hoodie\.write\.lock\.hivemetastore\.table"):
        hudi.create_table(str(tmp_path / "t"), pa.schema([("id", pa.int64())]), "id", options=options).delete([1])


@pytest.mark.parametrize(
    "uris",
    ["", ",", "h:9083", "http://h", "thrift://user:very-secret@h", "thrift://h:x", "thrift://h/path", "thrift://"],
)
def test_addresses_that_cannot_be_used_are_refused_without_showing_them(uris: str) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        servers_of(uris)
    assert "very-secret" not in f"{refused.value!r} {refused.value}"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("300s", 300), ("50", 50), ("6000ms", 6), ("5m", 300), ("5 minutes", 300), ("1HOUR", 3600), ("2msec", 0.002), ("1d", 86400)],
)  # fmt: skip
def test_the_metastores_time_is_read_in_every_unit_of_hive(text: str, seconds: float) -> None:
    assert _seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "0s", "-1s", "soon", "5 parsecs"])
def test_a_time_that_is_none_is_an_error_of_the_server(text: str) -> None:
    with pytest.raises(LockServerError, match=r"hive\.txn\.timeout"):
        _seconds(text)


def test_what_was_observed_counts_from_the_last_change() -> None:
    seen = Observed()
    assert seen.unchanged_s("a", 1, 10.0) == 0
    assert seen.unchanged_s("a", 1, 14.0) == 4
    assert seen.unchanged_s("a", 2, 15.0) == 0
    assert seen.unchanged_s("b", 2, 15.0) == 0
    seen.forget_others({"b"})
    assert seen.unchanged_s("a", 2, 20.0) == 0
    assert seen.unchanged_s("b", 2, 20.0) == 5
