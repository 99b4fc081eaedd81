"""Executors that cannot run this package, or do not see the table, are found before rows are written, and the error names what to do."""

from __future__ import annotations

import json
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.disk import contents
from support.spark_frames import frame
from support.tables import make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.engine import spark_executors
from pyhudi_core.errors import ConfigError
from pyhudi_core.runtime.worker_facts import worker_facts
from pyhudi_core.spark import ship, view

ROOT = Path(__file__).resolve().parent.parent.parent

WAYS = ["--py-files", "spark.archives", "pyhudi.spark.ship(spark)", "pyhudi help clusters"]


@pytest.fixture
def python(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Lets workers of the session run another interpreter."""
    monkeypatch.setenv("PYSPARK_PYTHON", "chosen")
    before = spark.sparkContext.pythonExec

    def choose(lines: str) -> None:
        place = tmp_path / "python"
        place.write_text(f"#!/bin/sh\n{lines}\n")
        place.chmod(0o755)
        spark.sparkContext.pythonExec = str(place)

    yield choose
    spark.sparkContext.pythonExec = before


def _refused(table: hudi.HudiTable, spark: Any) -> str:
    before = contents(table.location)
    began = time.perf_counter()
    with pytest.raises(ConfigError) as caught:
        table.upsert(frame(spark, orders((1, "a", 5.0))))
    assert time.perf_counter() - began < 60  # seconds; 3 on an idle machine
    assert contents(table.location) == before
    assert all(way in str(caught.value) for way in WAYS)
    return caught.value.message


def test_executors_without_the_packages_are_refused_by_name(spark: Any, location: str, python: Any) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    python(f'exec {sys.executable} -S "$@"')
    assert "no pyarrow" in _refused(table, spark) or "No module" in _refused(table, spark)
    spark.sparkContext.pythonExec = "/no/python"
    assert "no Python at '/no/python'" in _refused(table, spark)


@pytest.mark.slow
def test_the_package_itself_can_be_sent(
    spark: Any, location: str, python: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(location, table_type="MERGE_ON_READ")
    table.upsert(orders((1, "a", 1.0)))
    libraries = sysconfig.get_paths()["purelib"]
    # Without the folder of this checkout, which tests have on their path.
    own = f'P=$(echo "$PYTHONPATH" | tr : "\\n" | grep -v "^{ROOT}$" | paste -sd: -)'
    python(f'cd {tmp_path}\n{own}\nPYTHONPATH="$P:{libraries}" exec {sys.executable} -S "$@"')
    assert "has no pyhudi" in _refused(table, spark)
    ship(spark)
    table.upsert(frame(spark, orders((2, "a", 2.0))))
    assert table.scan().to_spark(spark).count() == 2


def test_an_executor_that_sees_another_folder_is_refused_before_rows_are_written(
    spark: Any, location: str, python: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(location, table_type="MERGE_ON_READ")
    table.upsert(orders((1, "a", 1.0)))
    table.upsert(orders((1, "a", 2.0)))  # in a log, which a task in Python reads
    python(f'exec {sys.executable} "$@"')
    assert table.scan().to_spark(spark).count() == 1
    spark_executors.forget(spark)
    monkeypatch.setattr(spark_executors, "_here", lambda path: "another")
    before = contents(location)
    for act in (
        lambda: table.scan().to_spark(spark),
        lambda: table.upsert(frame(spark, orders((2, "a", 2.0)))),
        lambda: table.compaction.run(spark=spark),
    ):
        with pytest.raises(ConfigError, match="sees another table there") as caught:
            act()
        assert caught.value.table == location
    assert contents(location) == before


FACTS = json.loads(worker_facts())


@pytest.mark.parametrize(("change", "words"), [
    ({"python": "2.7"}, "is Python 2.7"), ({"pyarrow": "20.0.0"}, "pyarrow 20.0.0"),
    ({"pyhudi_core": "0.0.1"}, "pyhudi 0.0.1, and this process has"), ({"pyarrow": None}, "has no pyarrow"),
    ({"pyhudi_core": None}, "has no pyhudi"),
])  # fmt: skip
def test_each_difference_of_an_environment_is_named(change: dict[str, str | None], words: str) -> None:
    spark_executors._refuse(FACTS)
    facts = {**FACTS, **{f"{name} error": "ImportError: gone" for name in change}, **change}
    with pytest.raises(ConfigError, match=words) as caught:
        spark_executors._refuse({name: value for name, value in facts.items() if value is not None})
    assert FACTS["host"] in str(caught.value)


def test_the_oldest_pyarrow_is_that_of_the_package() -> None:
    assert f'"pyarrow>={spark_executors.OLDEST_PYARROW}"' in (ROOT / "pyproject.toml").read_text()


def test_a_view_is_a_table_for_sql(spark: Any, location: str) -> None:
    table = make(location, table_type="MERGE_ON_READ")
    first = table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    table.upsert(orders((2, "b", 5.0)))
    view(spark, "seen", location, meta=False)
    view(spark, "before", location, as_of=first, columns=["id", "price"])
    found = spark.sql("SELECT s.id, s.price, b.price FROM seen s JOIN before b USING (id) WHERE s.day = 'b'").collect()
    assert [tuple(row) for row in found] == [(2, 5.0, 2.0)]
    table.upsert(orders((3, "b", 5.0)))
    assert spark.table("seen").count() == 2
    view(spark, "seen", location)
    assert spark.table("seen").count() == 3
    assert len(rows(table, "id")) == 3
