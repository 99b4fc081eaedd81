"""Conflicts: whether two operations that ran at the same time can both be committed, and if not, why.

`matrix` has the rules, `conflict` compares two operations, and `concurrent` finds what ran at the same time. ``transaction`` is the commit protocol.
"""
