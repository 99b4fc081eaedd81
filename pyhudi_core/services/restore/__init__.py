"""Restore: `restores` is the service, `planning` makes the plan (`plan`), `work` lists what goes, and `execution` executes the plan.

`rollbacks` undoes one instant: a pending write, or the newest commit.
"""
