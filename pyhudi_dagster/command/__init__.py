"""The command ``pyhudi-dagster``: a project's definitions, and what is asked and run for them at a terminal."""
