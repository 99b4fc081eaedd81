"""Each capability and each promise has tests that name it."""

from __future__ import annotations

from scripts import evidence_page


def test_every_capability_that_exists_has_a_test_and_every_mark_names_one() -> None:
    known = {name: text for rows in evidence_page.capabilities().values() for name, text in rows.items()}
    tested = set(evidence_page.proofs())
    exists = {name for name, text in known.items() if not text.startswith("later: ")}
    assert exists - tested == set(), "capabilities without a test"
    assert tested - exists == set(), (
        "marks of tests that name no capability of tests/capabilities.txt, or one of which no part exists"
    )


def test_every_promise_is_named_by_a_test() -> None:
    assert list(evidence_page.promises()) == sorted(evidence_page.promised_by()) == list(range(1, 11))
