"""The sweep deletes files that belong to nobody: `sweep` is the service, `files_to_sweep` finds these files.

`disk_usage` counts them with all others.
"""
