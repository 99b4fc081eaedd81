"""``make mutants``: small changes to the code, and whether the tests notice them.

cosmic-ray makes the mutants; what is here draws a sample of them, runs for each the tests that cover its line, and keeps what came out.
"""
