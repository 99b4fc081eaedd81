"""A PySpark without data sources in Python: what needs them says so, and nothing else minds."""

from __future__ import annotations

import sys
from typing import Any

import pyspark
import pytest
from support.tables import make

from pyhudi_core.errors import MissingExtraError
from pyhudi_core.spark import register


def test_a_release_without_data_sources_in_python_is_told_what_to_use_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("filters", "partitions", "source", "stream"):
        monkeypatch.delitem(sys.modules, f"pyhudi_core.spark.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "pyspark.sql.datasource", None)
    with pytest.raises(MissingExtraError, match=r"need PySpark 4\.2") as caught:
        register(None)
    assert "to_spark" in str(caught.value)


@pytest.mark.parametrize("release", ["3.4.4", "2.4.8"])
def test_a_release_that_is_too_old_is_refused_by_name(
    release: str, monkeypatch: pytest.MonkeyPatch, location: str, spark: Any
) -> None:
    """PySpark 3.4 has other names in its modules; what fails first is not what the user can mend."""
    table = make(location)
    for name in [name for name in sys.modules if name.startswith("pyhudi_core.engine.spark")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(pyspark, "__version__", release)
    frame = spark.range(1)
    for act in (lambda: table.upsert(frame), lambda: table.scan().to_spark(spark), lambda: register(spark)):
        with pytest.raises(MissingExtraError, match=rf"this is {release}, and 3\.5 is the oldest") as caught:
            act()
        assert "pip install -U 'pyhudi[spark]'" in str(caught.value)
