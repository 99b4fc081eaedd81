"""The merge law on Spark's executors: the cases of `merge_cases` leave the same rows as on the local engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.merge_cases import KEY, KINDS, LISTED, left_by_commits, left_over_base, random_stories, stories
from support.merge_tables import by_commits, in_one_batch, left

from pyhudi_core.engine import spark as engine
from pyhudi_core.engine.spark_types import to_spark


@pytest.mark.one_in(2, first=1)
@pytest.mark.row("J2", "J6")
@pytest.mark.parametrize("name", ["double", "two columns"])
def test_cases_and_random_stories_end_as_on_the_local_engine(
    name: str, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "GATHER_BYTES", -1)  # in the executors all the way
    kind = KINDS[name]
    told = {case: story for case, (_, story) in stories(kind).items() if all(v.what != LISTED for v in story)}
    told |= random_stories(kind, 5, 200)

    def frame(rows: Any) -> Any:
        # One partition keeps the order of the rows, which decides between equal values.
        return spark.createDataFrame([tuple(row.values()) for row in rows.to_pylist()], to_spark(rows.schema)).coalesce(
            1
        )

    table = by_commits(str(tmp_path / "commits"), told, kind, frame)
    assert left(table, told) == {key: left_by_commits(story, kind) for key, story in told.items()}
    plain = {key: story for key, story in told.items() if all(v.what != KEY for v in story)}
    table = in_one_batch(str(tmp_path / "batch"), plain, kind, frame)
    assert left(table, plain) == {key: left_over_base(story, kind) for key, story in plain.items()}
