"""Cleaning: `cleaning` is the service; the plan, how it is made (`planning`, `rules`, `slices`), and its execution."""
