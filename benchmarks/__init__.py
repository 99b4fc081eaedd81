"""What this project costs, measured side by side with its limit and its peers; `python -m benchmarks.run`
starts it.
"""
