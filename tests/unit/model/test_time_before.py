"""The time just before an instant sorts before it, whatever number of digits it has."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from pyhudi_core.model.instant import epoch_ms, format_time, time_after, time_before


@pytest.mark.parametrize(
    ("after", "before"),
    [
        ("20260101000000000", "20251231235959999"),
        ("20260101000000001", "20260101000000000"),
        ("20260101000000", "20251231235959999"),  # seconds, as releases before 0.10 made them
    ],
)
def test_the_time_before_an_instant_sorts_before_it(after: str, before: str) -> None:
    assert time_before(after) == before
    assert before < after


@pytest.mark.parametrize(
    "text", ["19691231235958500", "19691231235959999", "19700101000000000", "19011213204551999", "20260101000000001"]
)
def test_a_time_is_the_same_number_of_milliseconds_before_and_after_1970(text: str) -> None:
    ms = epoch_ms(text, utc=True)
    assert ms is not None
    assert format_time(ms, utc=True) == text


@pytest.fixture(params=["UTC", "Asia/Tokyo", "America/New_York"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as changed:
        changed.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("zone")
def test_times_at_the_ends_of_the_calendar_are_texts_that_sort() -> None:
    for text in ("99991231235959999", "99991231235959", "00010101000000000", "00010101000000", "01231231235959999"):
        assert time_before(text) < text <= time_after(text)
        for utc in (True, False):
            ms = epoch_ms(text, utc=utc)
            assert ms is None or len(format_time(ms, utc=utc)) == 17
    assert time_after("00011231235959999") == "00020101000000000"
