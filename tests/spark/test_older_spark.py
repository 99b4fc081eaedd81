"""A PySpark without data sources in Python: what needs them says so, and nothing else minds."""

from __future__ import annotations

import sys

import pytest

from pyhudi_core.errors import MissingExtraError
from pyhudi_core.spark import register


def test_a_release_without_data_sources_in_python_is_told_what_to_use_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("filters", "partitions", "source", "stream"):
        monkeypatch.delitem(sys.modules, f"pyhudi_core.spark.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "pyspark.sql.datasource", None)
    with pytest.raises(MissingExtraError, match=r"need PySpark 4\.2") as caught:
        register(None)
    assert "to_spark" in str(caught.value)
