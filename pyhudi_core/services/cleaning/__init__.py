"""Cleaning: `cleaning` is the service, `planning` (with `rules` and `slices`) makes the plan (`plan`), and `execution` executes it."""
