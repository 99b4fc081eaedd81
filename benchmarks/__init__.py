"""Measurements of this project next to its limit and its peers: `python -m benchmarks.run`."""
