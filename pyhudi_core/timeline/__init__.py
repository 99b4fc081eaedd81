"""The timeline: what happened to a table, in order."""
