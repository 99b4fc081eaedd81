"""A home for Airflow with a SQLite database, one for each process of tests, and DAGs that run in this process without a scheduler."""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(tempfile.mkdtemp(prefix="pyhudi-airflow-"))
ENVIRONMENT = {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__DAGS_FOLDER": str(HOME / "dags"),
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
}
atexit.register(shutil.rmtree, HOME, ignore_errors=True)


def with_database() -> Path:
    """The home, with an empty database: a copy of one that was made once for this version of Airflow, because that takes ten seconds."""
    (HOME / "dags").mkdir(exist_ok=True)
    kept = ROOT / ".cache" / f"airflow-{version('apache-airflow')}.db"
    if not kept.exists():
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                [sys.executable, "-m", "airflow", "db", "migrate"],
                env={**os.environ, **ENVIRONMENT, "AIRFLOW_HOME": folder},
                check=True,
                capture_output=True,
            )
            shutil.copy(Path(folder) / "airflow.db", kept.with_suffix(f".{os.getpid()}"))
        kept.with_suffix(f".{os.getpid()}").replace(kept)
    shutil.copy(kept, HOME / "airflow.db")
    return HOME


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
        return module.DAG
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(str(path)).dags[dag_id]


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
