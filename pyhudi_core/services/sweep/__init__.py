"""The sweep of files that belong to nobody: `sweep` is the service, `planning` says which they are."""
