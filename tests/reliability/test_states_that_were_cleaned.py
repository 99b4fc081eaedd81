"""A verb reads rows in order to change them, before it announces a write. A clean that removes their files meanwhile is a lost attempt, no error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from reliability.stories import Story, batch, rows_of

import pyhudi_core as hudi
from pyhudi_core.errors import CommitConflictError
from pyhudi_core.testing import Profile

CLEANING: dict[str, object] = {
    "hoodie.clean.commits.retained": 1,
    "hoodie.time.generator.max_expected_clock_skew_ms": 1,
}
Verb = Callable[[hudi.HudiTable], object]


def merged(table: hudi.HudiTable) -> object:
    source = batch((1, "a", 5))
    merge = table.merge(source, "source.id = target.id").when_matched_update(
        {"value": "source.value"}, where="target.value >= 0"
    )
    return merge.run()


VERBS: dict[str, Verb] = {
    "update": lambda table: table.update(set={"value": "5"}, where="id = 1"),
    "merge": merged,
    "replace": lambda table: table.replace(batch((1, "a", 5)), where="id = 1"),
    "delete": lambda table: table.delete(where="id = 1"),
    "a new rule": lambda table: table.alter(add_check={"small": "value < 1000"}),
}


def cleaned_at_first_read(story: Story, times: int, retries: int = 5) -> tuple[hudi.HudiTable, list[int]]:
    """Return a table whose base file is cleaned when the table reads it, so often."""
    writer = story.writer(options={**CLEANING, "pyhudi.commit.retries": retries})
    cleaned: list[int] = []

    def reached(verb: str, path: str) -> None:
        if len(cleaned) < times and verb != "put" and str(path).endswith(".parquet") and ".hoodie/" not in path:
            cleaned.append(len(cleaned))
            other = story.writer(options=CLEANING).open()
            for value in (1, 2, 3):
                other.upsert(batch((2, "a", 10 * len(cleaned) + value)))
            assert other.services["cleaning"].run()

    writer.watch(reached)
    return writer.open(), cleaned


@pytest.mark.row("K12")
@pytest.mark.parametrize("verb", VERBS)
def test_a_state_that_is_cleaned_while_a_verb_reads_it_is_read_again(verb: str) -> None:
    story = Story(Profile.LOCAL_POSIX)
    table = story.table((1, "a", 0), (2, "a", 0))
    mine, cleaned = cleaned_at_first_read(story, times=1)
    VERBS[verb](mine)
    assert cleaned, "the verb has read no file"
    changed: dict[str, Any] = {"delete": [], "a new rule": [(1, "a", 0)]}
    assert rows_of(table) == [*changed.get(verb, [(1, "a", 5)]), (2, "a", 13)]


def test_a_verb_whose_state_is_cleaned_again_and_again_ends_with_a_conflict() -> None:
    story = Story(Profile.LOCAL_POSIX)
    table = story.table((1, "a", 0), (2, "a", 0))
    mine, cleaned = cleaned_at_first_read(story, times=1000, retries=2)
    with pytest.raises(CommitConflictError, match="A clean removed the state of the table"):
        mine.update(set={"value": "5"}, where="id = 1")
    assert rows_of(table)[0] == (1, "a", 0)
    assert len(cleaned) > 1
