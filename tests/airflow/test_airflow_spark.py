"""Spark by a connection of Airflow: what each type of connection means, what is refused by name, and tasks on real sessions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Connection
from support.spark_connect_server import OF_SPARK, connect_server

from pyhudi.errors import InvalidOptionError
from pyhudi_airflow import HudiServiceOperator, HudiWriteOperator
from pyhudi_airflow.spark_connections import settings_of_connection

TASKS = """
import pyarrow as pa
from airflow.sdk import DAG as Dag, task
from pyhudi_airflow import HudiServiceOperator

ON = {"table": "orders", "spark_conn_id": "spark_default"}

with Dag("on_spark", schedule=None) as DAG:
    @task.hudi(record_key="id", table_type="merge_on_read", **ON)
    def load(first, spark, ds=None):
        return spark.range(first, 100).selectExpr("id", "concat('d', id % 3) AS day")

    @task.hudi(**ON)
    def arrow():
        return pa.table({"id": [10, 11], "day": ["x", "y"]})  # updates alone make log files; a new row would go into the small base file

    load(10) >> arrow() >> HudiServiceOperator(task_id="compact", service="compaction", when="always", **ON)
"""
RUN = """
import json, os, sys
from support import airflow_home
os.environ.update(airflow_home.ENVIRONMENT)
airflow_home.with_database()
finished = airflow_home.dag_of(sys.argv[1], "on_spark").test()
xcoms = {task: airflow_home.xcoms(finished, task).get("return_value") for task in ("load", "arrow", "compact")}
print("found " + json.dumps({"states": airflow_home.states(finished), **xcoms}))
"""


def made(**fields: Any) -> Connection:
    extra = fields.pop("extra", {})
    return Connection(conn_id="c", extra=json.dumps(extra), **fields)


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"conn_type": "spark", "host": "local[2]"}, {"spark.master": "local[2]"}),
        ({"conn_type": "spark", "host": "master", "port": 7077}, {"spark.master": "spark://master:7077"}),
        ({"conn_type": "spark", "host": "k8s://https://api", "port": 443}, {"spark.master": "k8s://https://api:443"}),
        (
            {
                "conn_type": "spark",
                "host": "yarn",
                "extra": {
                    "queue": "nightly", "deploy-mode": "client", "spark-binary": "spark-submit", "rest-port": "6066",
                    "spark.executor.cores": 2, "spark.ui.enabled": False, "keytab": None,
                },
            },
            {
                "spark.master": "yarn", "spark.yarn.queue": "nightly", "spark.executor.cores": "2",
                "spark.ui.enabled": "false",
            },
        ),
        ({"conn_type": "spark_connect", "host": "sc://server/"}, {"spark.remote": "sc://server/"}),
        (
            {
                "conn_type": "spark_connect", "host": "server", "port": 15002, "login": "me", "password": "a=b;c",
                "extra": {"use_ssl": True},
            },
            {"spark.remote": "sc://server:15002/;user_id=me;token=a%3Db%3Bc;use_ssl=true"},
        ),
    ],
)  # fmt: skip
def test_a_connection_means_these_settings_of_spark(fields: dict[str, Any], wanted: dict[str, str]) -> None:
    assert settings_of_connection(made(**fields), "c") == wanted


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"conn_type": "livy", "host": "livy"}, "LivyOperator"),
        ({"conn_type": "spark_sql", "host": "yarn"}, "the command spark-sql"),
        ({"conn_type": "spark_jdbc", "host": "yarn"}, "copies between Spark and a database"),
        ({"conn_type": "hudi", "host": "/lake"}, "The types 'spark' and 'spark_connect' can be used"),
        ({"conn_type": "spark"}, "has no host"),
        ({"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}, "SparkSubmitOperator"),
        ({"conn_type": "spark", "host": "yarn", "extra": {"keytab": "x"}}, "spark.kerberos.keytab"),
        ({"conn_type": "spark", "host": "yarn", "extra": {"cores": 2}}, "'cores', which means nothing here"),
        ({"conn_type": "spark_connect", "host": "s", "extra": {"queue": "a"}}, "'queue', which means nothing here"),
    ],
)
def test_what_cannot_work_is_refused_by_name(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        settings_of_connection(made(**fields), "c")
    assert said in str(caught.value)


def test_a_service_has_one_session() -> None:
    with pytest.raises(InvalidOptionError, match="spark= and spark_conn_id= are both given"):
        HudiServiceOperator(task_id="t", table="a", service="cleaning", spark=object, spark_conn_id="spark_default")


def test_the_argument_spark_comes_last() -> None:
    def load(spark: Any, first: int) -> None: ...

    with pytest.raises(InvalidOptionError, match="load has arguments without a default after spark"):
        HudiWriteOperator(task_id="t", table="a", python_callable=load, spark_conn_id="spark_default")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["spark", "spark_connect"])
def test_tasks_write_and_compact_on_a_session_of_the_connection(tmp_path: Path, kind: str) -> None:
    """In a process of its own: PySpark's functions belong to one kind of session."""
    (tmp_path / "lake").mkdir()
    with ExitStack() as around:
        where: dict[str, Any] = {
            "host": "local[2]",
            "extra": {"spark.ui.enabled": False, "spark.sql.shuffle.partitions": 2},
        }
        if kind == "spark_connect":
            where = {"host": "127.0.0.1", "port": around.enter_context(connect_server(tmp_path))}
        environment = {
            **os.environ,
            **OF_SPARK,
            "AIRFLOW_CONN_HUDI_DEFAULT": json.dumps({"conn_type": "hudi", "host": str(tmp_path / "lake")}),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": kind, **where}),
        }
        ended = subprocess.run(
            [sys.executable, "-c", RUN, TASKS],
            env=environment,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
    lines = [line for line in ended.stdout.splitlines() if line.startswith("found ")]
    assert lines, ended.stdout[-3000:] + ended.stderr[-3000:]
    found = json.loads(lines[0].removeprefix("found "))
    assert found["states"] == {"load": "success", "arrow": "success", "compact": "success"}, ended.stdout[-6000:]
    assert found["load"]["rows_inserted"] == 90
    assert (found["arrow"]["rows_inserted"], found["arrow"]["rows_updated"]) == (0, 2)
    assert found["compact"]["service"] == "compaction"
