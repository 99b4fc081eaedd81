"""New York's flights of 2013: the data of the demo in ``definitions.py``."""
