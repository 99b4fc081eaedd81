"""Restore: `restores` is the service; the plan, how it is made, its work and execution; `rollbacks` undo one completed commit."""
