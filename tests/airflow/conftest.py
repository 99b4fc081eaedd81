"""Sets Airflow's home before the first import of Airflow, which reads it once, and gives tests a database."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support import airflow_home

os.environ.update(airflow_home.ENVIRONMENT)


@pytest.fixture
def home() -> Path:
    """Airflow's home in this process, with an empty database: an asset that another test has named is not known."""
    return airflow_home.with_database()


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A warehouse, which the default connection names."""
    folder = tmp_path / "lake"
    folder.mkdir()
    monkeypatch.setenv("AIRFLOW_CONN_HUDI_DEFAULT", f'{{"conn_type": "hudi", "host": "{folder}"}}')
    return folder
