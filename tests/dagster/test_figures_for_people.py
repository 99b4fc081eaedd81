"""Numbers of the events as people read them."""

from __future__ import annotations

import pytest

from pyhudi_dagster.reporting.metadata import readable_bytes
from pyhudi_dagster.timeline.identity import _LONGEST_LIST, partitions_text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"), (1, "1 B"), (999, "999 B"), (1000, "1.0 KB"), (1499, "1.5 KB"), (999_949, "999.9 KB"), (1_000_000, "1.0 MB"),
        (2_500_000_000, "2.5 GB"), (10**12, "1.0 TB"), (5 * 10**15, "5000.0 TB"),
    ],
)  # fmt: skip
def test_bytes_are_shown_in_the_largest_unit_that_they_fill(count: int, text: str) -> None:
    assert readable_bytes(count) == text


def test_partitions_are_named_one_by_one_up_to_a_number_and_in_any_order() -> None:
    few = [f"2026-{number:03d}" for number in range(_LONGEST_LIST)]
    assert partitions_text(few[::-1]) == ",".join(few)
    many = partitions_text([*few, "2027"])
    assert many.startswith(f"{few[0]}...2027 ({_LONGEST_LIST + 1}, ")
    assert many == partitions_text(["2027", *few[::-1]]) != partitions_text([*few[:-1], "2026-999", "2027"])
