"""Airflow finds the provider and its form; the hook opens tables, says what is wrong with a connection, and hides its secrets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import pyhudi as hudi
import pyhudi_airflow
from pyhudi.errors import InvalidOptionError, TableNotFoundError
from pyhudi_airflow import (
    HudiCheckOperator,
    HudiConsumerOperator,
    HudiServiceDueSensor,
    HudiServiceOperator,
    HudiSnapshotSensor,
    HudiUpkeepOperator,
    HudiWriteOperator,
    hudi_asset,
)
from pyhudi_airflow.spark_connections import settings_of_connection
from pyhudi_core.orchestration import TableMismatchError

ROWS = pa.table({"id": [1, 2], "price": [1.5, 2.5]})

SECRET = "kept-for-nobody-else"


def hook(conn_id: str = "hudi_default") -> pyhudi_airflow.HudiHook:
    return pyhudi_airflow.HudiHook(conn_id)


def connect(monkeypatch: pytest.MonkeyPatch, conn_id: str = "lake", **fields: object) -> pyhudi_airflow.HudiHook:
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps({"conn_type": "hudi", **fields}))
    return hook(conn_id)


def test_airflow_lists_the_connection_type_with_its_form() -> None:
    from airflow.providers_manager import ProvidersManager

    manager = ProvidersManager()
    found = manager.hooks["hudi"]
    assert found is not None
    assert (found.hook_name, found.package_name, found.connection_id_attribute_name) == (
        "Apache Hudi",
        "pyhudi",
        "hudi_conn_id",
    )
    assert found.connection_testable


@pytest.mark.skipif(find_spec("airflow.triggers.shared_stream") is None, reason="before 3.3 Airflow asks the hook")
def test_the_form_hides_what_may_be_secret() -> None:
    from airflow.providers_manager import ProvidersManager

    manager = ProvidersManager()
    assert manager.field_behaviours["hudi"]["relabeling"]["host"] == "Warehouse"
    widgets = manager.connection_form_widgets
    for field in ("storage_options", "options"):
        assert widgets[f"extra__hudi__{field}"].is_sensitive, "what may hold a secret is not shown by the form"


def test_an_older_form_shows_the_extra() -> None:
    assert "extra" not in pyhudi_airflow.HudiHook.get_ui_field_behaviour()["hidden_fields"]


def test_the_description_imports_neither_airflow_nor_a_table() -> None:
    code = (
        "import sys, pyhudi_airflow.provider as p; p.get_provider_info(); "
        "print([m for m in ('airflow', 'pyarrow', 'pyhudi_core.table') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_hook_opens_tables_by_name_and_by_location(lake: Path) -> None:
    hudi.create_table(f"{lake}/sales/orders", schema=ROWS.schema, record_key="id").insert(ROWS)
    for name in ("sales/orders", f"{lake}/sales/orders", f"{lake}/sales/orders/"):
        assert hook().table(name).scan().count() == 2
    assert hook().tables() == ["sales/orders"]


def test_a_location_needs_no_connection(tmp_path: Path) -> None:
    hudi.create_table(f"{tmp_path}/orders", schema=ROWS.schema, record_key="id")
    assert hook().table(f"{tmp_path}/orders").name == "orders"


def test_a_table_is_created_once_and_then_opened(lake: Path) -> None:
    first = hook().table_or_new("orders", ROWS.schema, record_key="id", options={"hoodie.table.type": "MERGE_ON_READ"})
    first.insert(ROWS)
    again = hook().table_or_new("orders", ROWS.schema, record_key="id", options={"hoodie.table.type": "MERGE_ON_READ"})
    assert again.scan().count() == 2
    assert again.config.table_type.name == "MERGE_ON_READ"
    for omitted in ({"record_key": "id"}, {"options": {}}):
        assert hook().table_or_new("orders", ROWS.schema, **omitted).scan().count() == 2
    with pytest.raises(TableMismatchError, match="table type: the task has copy_on_write, the table has merge_on_read"):
        hook().table_or_new("orders", ROWS.schema, table_type="cow")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"conn_type": "postgres", "host": "/lake"}, "has the type 'postgres', not 'hudi'"),
        ({}, "names no warehouse"),
        ({"host": "/lake", "extra": {"region": "eu"}}, "has 'region', which means nothing"),
        ({"host": "/lake", "extra": {"storage_options": "{no json"}}, "The storage_options of the connection 'lake'"),
        ({"host": "/lake", "extra": {"options": '["a"]'}}, "The options of the connection 'lake'"),
        ({"host": "/lake", "extra": {"options": {"hoodie.a": {"b": 1}}}}, "The options of the connection 'lake'"),
    ],
)
def test_a_connection_that_cannot_work_says_why(
    fields: dict[str, object], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = connect(monkeypatch, **fields)
    with pytest.raises(InvalidOptionError, match=said) as error:
        found.table("orders")
    assert error.value.hint
    passed, message = found.test_connection()
    assert not passed and said in message


DOORS: dict[str, Callable[[Any], Any]] = {
    "write": lambda name: HudiWriteOperator(task_id="t", python_callable=list, table=name),
    "tables": lambda name: HudiWriteOperator(task_id="t", python_callable=list, tables={name: {}, "b": {}}),
    "source": lambda name: HudiConsumerOperator(task_id="t", python_callable=list, source=name, into="b"),
    "into": lambda name: HudiConsumerOperator(task_id="t", python_callable=list, source="b", into=name),
    "service": lambda name: HudiServiceOperator(task_id="t", table=name, service="cleaning"),
    "upkeep": lambda name: HudiUpkeepOperator(task_id="t", tables=name),
    "upkeep of several": lambda name: HudiUpkeepOperator(task_id="t", tables=["b", name]),
    "check": lambda name: HudiCheckOperator(task_id="t", table=name),
    "snapshot": lambda name: HudiSnapshotSensor(task_id="t", table=name),
    "due": lambda name: HudiServiceDueSensor(task_id="t", table=name, service="cleaning"),
    "asset": hudi_asset,
    "asset of outlets": lambda name: hudi_asset(name, watch=False),
}


@pytest.mark.parametrize("name", ["", " ", "/", "../x", "a/../../x", ".hidden", "a//b"])
@pytest.mark.parametrize("door", DOORS)
def test_what_names_no_table_is_refused_when_the_dag_file_is_parsed(door: str, name: str) -> None:
    with pytest.raises(InvalidOptionError, match="names no table") as refused:
        DOORS[door](name)
    assert repr(name) in refused.value.message
    assert "sales/orders" in (refused.value.hint or "")
    if "asset" not in door:
        assert refused.value.message.startswith("The task t has ")


@pytest.mark.parametrize("name", ["orders", "sales/orders/", "/lake/orders", "s3://b/orders", "{{ params['../x'] }}"])
@pytest.mark.parametrize("door", [door for door in DOORS if "asset" not in door])
def test_names_locations_and_templates_of_tables_are_taken(door: str, name: str) -> None:
    assert DOORS[door](name)


@pytest.mark.parametrize(("source", "into"), [("a", "a"), ("a/", "a"), ("/lake/a", "/lake/a/"), ("{{ t }}", "{{ t }}")])
def test_a_consumer_does_not_write_into_its_source(source: str, into: str) -> None:
    with pytest.raises(InvalidOptionError, match="The task t has into=.*, which is its source"):
        HudiConsumerOperator(task_id="t", python_callable=list, source=source, into=into)


@pytest.mark.parametrize("name", ["", "/", None, 3])
def test_a_name_that_names_no_table_is_refused(name: object, lake: Path) -> None:
    with pytest.raises(InvalidOptionError, match="names no table"):
        hook().table(name)  # type: ignore[arg-type]


def test_a_table_that_does_not_exist_yet_is_named(lake: Path) -> None:
    with pytest.raises(TableNotFoundError, match=f"{lake}/orders"):
        hook().table("orders")


def test_a_test_of_the_connection_lists_the_tables(lake: Path) -> None:
    assert hook().test_connection() == (True, f"{lake} can be read, and has no table yet")
    for number in range(12):
        hudi.create_table(f"{lake}/t{number:02}", schema=ROWS.schema, record_key="id")
    passed, message = hook().test_connection()
    assert passed and "t00, t01" in message and message.endswith("and 2 more")


def test_a_login_is_an_s3_key_and_secrets_are_shown_nowhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        from airflow.sdk.log import redact
    except ImportError:  # Airflow 3.0
        from airflow.sdk.execution_time.secrets_masker import redact

    found = connect(
        monkeypatch,
        host="s3://bucket/lake",
        login="AKIDEXAMPLE",
        password=SECRET,
        extra={
            "storage_options": json.dumps({"endpoint_url": "http://127.0.0.1:1", "session_token": SECRET + "-2"}),
            "options": {"hoodie.write.lock.dynamodb.secret_key": SECRET + "-3", "hoodie.metadata.enable": True},
        },
    )
    settings = found.settings
    assert settings.storage_options["access_key_id"] == "AKIDEXAMPLE"
    assert settings.storage_options["secret_access_key"] == SECRET
    assert settings.options["hoodie.metadata.enable"] == "true"
    assert SECRET not in repr(settings)
    for value in (SECRET, SECRET + "-2", SECRET + "-3"):
        assert value not in str(redact(f"a log line with {value}")), "Airflow masks it in every log"


def test_an_address_with_a_password_among_the_options_is_masked_in_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    masked: list[str] = []
    monkeypatch.setattr("pyhudi_airflow.hook.mask_secret", masked.append)
    monkeypatch.setattr("pyhudi_airflow.spark_connections.mask_secret", masked.append)
    address = f"postgresql://user:{SECRET}@db/locks"
    extra = {"options": {"pyhudi.lock.sql.url": address}, "storage_options": {"token": SECRET, "region": "eu"}}
    settings = connect(monkeypatch, host=f"thrift://user:{SECRET}@metastore:9083/sales", extra=extra).settings
    assert masked == [SECRET, address]
    assert SECRET not in repr(settings)
    masked.clear()
    server = SimpleNamespace(conn_type="spark_connect", host="h", port=0, login="", password="a=b", extra_dejson={})
    assert settings_of_connection(server, "c") == {"spark.remote": "sc://h/;token=a%3Db"}
    assert masked == ["a=b", "a%3Db"], "the address, which Spark's errors show, has the second one"


def test_without_airflow_a_name_of_the_package_says_what_to_install() -> None:
    code = "import sys; sys.modules['airflow'] = None; from pyhudi_airflow import HudiHook"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pyhudi_airflow needs Apache Airflow, which is not installed" in done.stderr
    assert "pip install 'pyhudi[airflow]'" in done.stderr


def test_airflow_2_is_told_what_is_supported(tmp_path: Path) -> None:
    """A package named airflow without the task SDK, as Airflow 2 is."""
    (tmp_path / "airflow").mkdir()
    (tmp_path / "airflow" / "__init__.py").write_text("")
    facts = tmp_path / "apache_airflow-2.10.5.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: apache-airflow\nVersion: 2.10.5\n")
    code = "from pyhudi_airflow import HudiHook"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "pyhudi_airflow needs Airflow 3.0 or newer, and this is 2.10.5" in done.stderr
