"""The sweep deletes files without an owner: `sweep` is the service, `files_to_sweep` finds these files.

`disk_usage` counts them with all others.
"""
