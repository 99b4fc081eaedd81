"""The sweep deletes files that belong to nobody: `sweep` is the service, `planning` finds these files."""
