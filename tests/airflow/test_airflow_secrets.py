"""No secret of a connection or of a task's options is shown by Airflow: in XComs, rendered fields, logs, or the text of an error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from airflow.sdk import DAG as Dag
from moto.server import ThreadedMotoServer
from support.airflow_home import dag_of, states, xcoms

from pyhudi_airflow import HudiServiceOperator, HudiWriteOperator

SECRET = "kept-for-one-run"
DAG = """
import os
import pyarrow as pa
from airflow.sdk import DAG as Dag, task

OPTIONS = {
    "hoodie.write.lock.provider": "dynamodb",
    "hoodie.write.lock.dynamodb.table": "{{ conn.of_the_lock.login }}",
    "hoodie.write.lock.dynamodb.region": "us-east-1",
    "hoodie.write.lock.dynamodb.endpoint_url": os.environ["STORE"],
    "hoodie.aws.access.key": "AKIDEXAMPLE",
    "hoodie.aws.secret.key": "{{ conn.of_the_lock.password }}",
}

with Dag("with_secrets", schedule=None) as DAG:
    @task.hudi(table="orders", record_key="id", options=OPTIONS)
    def load():
        return pa.table({"id": [1]})

    @task.hudi(table="orders", options=OPTIONS)
    def refused():
        return pa.table({"id": ["no number"]})

    load() >> refused()
"""


@pytest.fixture
def store() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    address = "http://{}:{}".format(*server.get_host_and_port())
    keys = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": SECRET}
    boto3.client("s3", endpoint_url=address, region_name="us-east-1", **keys).create_bucket(Bucket="lake")
    yield address
    server.stop()


def test_a_run_shows_no_secret_in_xcoms_rendered_fields_and_logs(
    home: Path,
    store: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("STORE", store)
    monkeypatch.setenv(
        "AIRFLOW_CONN_OF_THE_LOCK",
        json.dumps({"conn_type": "aws", "login": "locks-of-airflow", "password": SECRET + "-2"}),
    )
    storage = {"endpoint_url": store, "region": "us-east-1", "session_token": SECRET + "-3"}
    connection = {"conn_type": "hudi", "host": "s3://lake/tables", "login": "AKIDEXAMPLE", "password": SECRET}
    monkeypatch.setenv("AIRFLOW_CONN_HUDI_DEFAULT", json.dumps({**connection, "extra": {"storage_options": storage}}))
    caplog.set_level("INFO")
    finished = dag_of(DAG, "with_secrets").test()
    assert states(finished) == {"load": "success", "refused": "failed"}
    keys = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": SECRET, "region_name": "us-east-1"}
    assert "locks-of-airflow" in boto3.client("dynamodb", endpoint_url=store, **keys).list_tables()["TableNames"]
    assert xcoms(finished, "load")["return_value"]["rows_inserted"] == 1
    shown = {"logs": caplog.text, "output": "".join(capfd.readouterr()), "database": _stored(home)}
    assert "hoodie.aws.secret.key" in shown["database"], "the rendered fields are there"
    assert "SchemaMismatchError" in shown["output"], "the error is there"
    assert [place for place, text in shown.items() if SECRET in text] == []


@pytest.mark.parametrize("operator", [HudiWriteOperator, HudiServiceOperator])
def test_a_secret_option_of_a_task_is_masked_before_its_rendered_fields_are_shown(operator: Any) -> None:
    try:
        from airflow.sdk.log import redact
    except ImportError:  # Airflow 3.0
        from airflow.sdk.execution_time.secrets_masker import redact

    address = f"postgresql://u:{SECRET}-{operator.__name__}@h/d"
    own = {"service": "cleaning"} if operator is HudiServiceOperator else {"python_callable": print}
    task = operator(task_id="t", table="orders", options={"pyhudi.lock.sql.url": "{{ params.address }}"}, **own)
    task.render_template_fields({"params": {"address": address}})
    assert task.options == {"pyhudi.lock.sql.url": address}
    assert address not in str(redact({"options": task.options}))


def _stored(home: Path) -> str:
    """What is in the database and in the files of logs."""
    files = [path for path in home.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]
    return "".join(path.read_bytes().decode("latin-1") for path in files)


def test_the_options_of_a_mapped_task_are_masked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow fills in the templates of a mapped task by another method than those of a plain one."""
    masked: list[dict[str, object]] = []
    monkeypatch.setattr("pyhudi_airflow.base_operator.mask_secrets", lambda options: masked.append(dict(options)))
    secret = {"hoodie.write.lock.password": SECRET}
    with Dag("mapped", schedule=None) as dag:
        mapped = HudiServiceOperator.partial(task_id="m", service="cleaning", table="t").expand(options=[secret])
    values = {"table": "t", "service": "cleaning", "options": secret}
    monkeypatch.setattr(type(mapped), "_expand_mapped_kwargs", lambda *_: (values, set()))
    run = {"ti": SimpleNamespace(task=None), "params": {}, "dag": dag, "dag_run": SimpleNamespace(conf={})}
    mapped.render_template_fields(run)  # type: ignore[arg-type]
    assert masked == [secret]
