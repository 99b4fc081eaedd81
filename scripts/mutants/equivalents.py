"""Mutants that no test can catch, because the program does the same: key and reason. ``python -m scripts.mutants --show KEY`` shows one."""

EQUIVALENT: dict[str, str] = {}
