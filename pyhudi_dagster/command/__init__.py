"""The command ``pyhudi-dagster``: questions about a project's definitions, and runs for them, at a terminal."""
