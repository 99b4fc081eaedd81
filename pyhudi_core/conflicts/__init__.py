"""Conflicts: whether two operations that ran at the same time may both stand, and why not. The commit protocol is ``transaction``."""
