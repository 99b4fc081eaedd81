"""Conflicts: decide whether two concurrent operations can both be committed, and give the reason if not.

`matrix` has the rules, `conflict` compares two operations, and `concurrent` finds concurrent operations. ``transaction`` is the commit protocol.

How to add a rule:

1. `matrix`: a line for the pair of operations; then run ``python scripts/generate_docs.py``, which writes ``docs/conflicts.md``.
2. A new condition also needs its meaning in `matrix`, and its kind, text and test in `conflict`.
3. A rule that does not depend on the pair of operations is a function that `refuse_conflicts` of `concurrent` calls; `mixed_indexes` is the example.

Never weaken a check so that a test passes. Show an order of calls in which the check is wrong.
"""
