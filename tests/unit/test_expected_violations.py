"""The reliability page says which violations were looked for, and would say so if one was not."""

import json
from pathlib import Path

from scripts import expected_violations

ROOT = Path(__file__).resolve().parents[2]
OFF = {"locking": "none", "put_if_absent": "yes", "salt": "no", "monotonic": "yes", "key_check": "no"}


def test_the_page_says_why_violations_are_found():
    page = (ROOT / "docs" / "reliability.md").read_text()
    rows = json.loads((ROOT / "docs" / "reliability" / "eleven_rows.json").read_text())
    rows.pop("taken", None)
    assert expected_violations.EXPLORED_NOTE in page
    assert expected_violations.summary(rows) in page


def test_a_row_says_what_it_does_without():
    assert expected_violations.switched_off(OFF) == "lock and conflict check, salted names, key check"
    assert expected_violations.switched_off({"locking": "optimistic"}) == "nothing"


def test_a_violation_that_was_not_looked_for_is_counted_apart():
    rows = {
        "safe": {"expected": "OK", "failure": "LostWrite"},
        "off": {"expected": "lost write", "failure": "LostWrite"},
    }
    said = expected_violations.summary(rows)
    assert "Of 2 runs 1 must show a violation" in said
    assert "The other 1 must show none; 1 of them did." in said
