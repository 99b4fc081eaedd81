"""``make mutants``: small changes to the code, and whether the tests notice them.

cosmic-ray makes the mutants; this package draws a sample of them, runs the tests that cover the line of each, and stores the results.
"""
