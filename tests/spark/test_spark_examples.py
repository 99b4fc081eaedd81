"""The examples for Spark run in the session of the tests; `make evidence` runs them as programs of their own, too (tests/e2e/test_spark_example.py)."""

from __future__ import annotations

import runpy
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark 3.5 has no streaming data sources in Python")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_the_stream_of_the_example_gives_each_row_once(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    runpy.run_path(str(EXAMPLES / "spark_stream.py"))
    assert capsys.readouterr().out.splitlines()[-2:] == ["0 [(1, 9.5), (2, 7.0)]", "1 [(1, 8.0), (3, 3.0)]"]
