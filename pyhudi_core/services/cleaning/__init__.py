"""Cleaning: `cleaning` is the service, `files_to_clean` (with `clean_rules` and `removable_slices`) makes the plan (`clean_plan`),
and `clean_execution` executes it.
"""
