"""A home for Airflow with a SQLite database, one for each process of tests, and DAGs that run in this process without a scheduler."""

from __future__ import annotations

import atexit
import importlib.util
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

HOME = Path(tempfile.mkdtemp(prefix="pyhudi-airflow-"))
DATABASE, EMPTY = HOME / "airflow.db", HOME / "empty.db"
ENVIRONMENT = {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__DAGS_FOLDER": str(HOME / "dags"),
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
}
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
as_a_worker = pytest.mark.skipif(
    version("apache-airflow").startswith("3.0."),
    reason="`dag.test()` of Airflow 3.0 runs a task without what a worker has around it: active assets, callbacks, listeners, a timeout's end",
)


def with_database() -> Path:
    """The home, with an empty database. Airflow makes it once in this process; it is copied inside of SQLite, for connections to the one of an
    earlier test may be open.
    """
    (HOME / "dags").mkdir(exist_ok=True)
    if EMPTY.exists():
        _copy(EMPTY, DATABASE)
    else:
        from airflow.utils.db import initdb

        initdb()
        _copy(DATABASE, EMPTY)
    return HOME


def _copy(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as reads, closing(sqlite3.connect(target, timeout=60)) as writes:
        reads.backup(writes)


def dag_of(source: str, name: str, dag_id: str = "") -> Any:
    """The DAG that a DAG file of this text defines as ``DAG``, or with this id. The file is alone in the folder of DAGs, where Airflow looks for
    it.
    """
    for path in (HOME / "dags").glob("*.py"):
        path.unlink()
    path = HOME / "dags" / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    if not dag_id:
        return _with_test(module.DAG)
    try:
        from airflow.dag_processing.dagbag import DagBag
    except ImportError:  # until Airflow 3.1
        from airflow.models.dagbag import DagBag
    return _with_test(DagBag(str(path)).dags[dag_id])


def _with_test(dag: Any) -> Any:
    """The DAG with its method ``test``, which until Airflow 3.0 is the scheduler's, and gives a run no date."""
    if hasattr(dag, "test"):
        return dag
    from airflow.models.dag import DAG
    from airflow.utils import timezone

    scheduled = DAG.from_sdk_dag(dag)
    scheduled.test = lambda **how: DAG.test(scheduled, **{"logical_date": timezone.utcnow(), **how})
    return scheduled


def xcoms(finished: Any, task_id: str, map_index: int = -1) -> dict[str, Any]:
    """What a task of a finished run has pushed, by key."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    with create_session() as session:
        found = session.query(XComModel).filter_by(
            dag_id=finished.dag_id, run_id=finished.run_id, task_id=task_id, map_index=map_index
        )
        return {one.key: XComModel.deserialize_value(one) for one in found}


def states(finished: Any) -> dict[str, str]:
    """The states of the task instances of a finished run."""
    return {
        ti.task_id + (f"[{ti.map_index}]" if ti.map_index >= 0 else ""): str(ti.state)
        for ti in finished.get_task_instances()
    }
