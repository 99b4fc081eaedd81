"""Who wrote: each commit keeps user, machine, program and run, and the history shows them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from support.homes import home_at, make_at, runtime_with
from support.tables import WITHOUT_METADATA_TABLE, make, orders, read_avro, reopen

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.instant import Action
from pyhudi_core.runtime.system import system_writer

ANN = {"user": "ann", "host": "box", "program": "load.py", "run": "airflow shop/load/r1"}
SAYS = {f"pyhudi.writer.{name}": value for name, value in ANN.items()}


def table_of_ann(location: str, **options: object) -> hudi.HudiTable:
    made = home_at(location, runtime_with(writer=lambda: ANN), {**WITHOUT_METADATA_TABLE, **options})
    return make_at(made, table_type="merge_on_read")


def wrote(table: hudi.HudiTable) -> dict[str, dict[str, str | None]]:
    return {row["operation"]: {name: row[name] for name in ANN} for row in table.history().to_pylist()}


def test_every_operation_and_every_service_says_who_wrote(location: str) -> None:
    table = table_of_ann(location, **{"hoodie.clean.commits.retained": 1, "hoodie.clean.automatic": False})
    for price in (1.0, 2.0, 3.0):
        table.upsert(orders((1, "a", price), (2, "b", price)))
    table.insert(orders((3, "a", 1.0)))
    table.bulk_insert(orders((4, "a", 1.0)))
    table.delete(where="id = 3")
    table.compaction.run()
    table.clustering.run()
    table.insert_overwrite(orders((5, "b", 1.0)))
    table.delete_partitions(["day=b"] if table.config.hive_style_partitioning else ["b"])
    table.alter(add={"note": pa.string()})
    with table.begin(allow_empty=True, extra_metadata={"n": "1"}) as write:
        write.commit()
    found = wrote(table)
    assert len(found) >= 8, found
    assert all(who == ANN for who in found.values()), found
    table.cleaning.run()
    [clean] = [instant for instant in table.timeline if instant.action is Action.CLEAN]
    extra = read_avro(table, clean, "HoodieCleanMetadata")["extraMetadata"]
    assert {name: value for name, value in extra.items() if name in SAYS} == SAYS


def test_nothing_is_said_if_the_option_says_so(location: str) -> None:
    table = table_of_ann(location, **{"pyhudi.commit.writer": "false"})
    table.upsert(orders((1, "a", 1.0)))
    assert wrote(table) == {"UPSERT": dict.fromkeys(ANN)}
    extra = table.commit_metadata(table.timeline.commits[0]).extra_metadata
    assert not [key for key in extra if key.startswith("pyhudi.writer")]


def test_a_run_of_dagster_is_shown_as_the_run(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)), extra_metadata={"dagster.run_id": "7f"})
    [row] = table.history().to_pylist()
    assert (row["run"], row["writer"]) == ("dagster 7f", "pyhudi")


@pytest.mark.parametrize(
    "key", ["pyhudi.batches", "pyhudi.commit_token", "pyhudi.transaction", "schema", *sorted(SAYS)]
)
def test_nobody_writes_under_another_name_or_sets_an_entry_of_the_package(location: str, key: str) -> None:
    with pytest.raises(InvalidOptionError, match=key):
        make(location).upsert(orders((1, "a", 1.0)), extra_metadata={key: "eve"})


@pytest.mark.parametrize(
    ("how", "program"),
    [
        (["{script}"], "load.py"),
        (["-c", "{text}"], "python"),
        (["-m", "shop"], "shop"),
        (["-m", "shop.load"], "load.py"),
    ],
)
def test_the_program_has_its_name_and_none_of_its_arguments(tmp_path: Path, how: list[str], program: str) -> None:
    root = Path(hudi.__file__).parents[1]
    text = f"import sys; sys.path.insert(0, {str(root)!r})\nfrom pyhudi_core.runtime.system import system_writer\nprint(system_writer())"
    (tmp_path / "shop").mkdir()
    for name in ("shop/__init__.py", "shop/__main__.py", "shop/load.py"):
        (tmp_path / name).write_text("" if name.endswith("__init__.py") else text)
    command = [part.format(script=tmp_path / "shop/load.py", text=text) for part in how]
    done = subprocess.run(
        [sys.executable, *command, "--password", "hush"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert f"'program': '{program}'" in done.stdout
    assert "hush" not in done.stdout


def test_a_task_of_airflow_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("DAG_ID", "shop"), ("TASK_ID", "load"), ("DAG_RUN_ID", "manual__1")):
        monkeypatch.setenv(f"AIRFLOW_CTX_{name}", value)
    assert system_writer()["run"] == "airflow shop/load/manual__1"


def test_a_later_handle_of_the_table_says_its_own_writer(location: str) -> None:
    table_of_ann(location).upsert(orders((1, "a", 1.0)))
    table = reopen(hudi.open_table(location))
    table.upsert(orders((2, "a", 1.0)))
    later, first = table.history().to_pylist()
    assert (first["user"], later["user"]) == ("ann", system_writer()["user"])
