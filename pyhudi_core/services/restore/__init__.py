"""Restore: `restores` is the service, `commits_to_undo` makes the plan (`restore_plan`), `restore_work` lists the files to delete, and
`restore_execution` executes the plan.

`rollbacks` undoes one instant: a pending write, or the newest commit.
"""
