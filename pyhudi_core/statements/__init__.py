"""SQL: one statement as text, carried out by the verbs of a table, or answered by a query engine that reads scans.

`sql` in ``run.py`` is the public call. ``text.py`` parses with sqlglot, in the dialect of conditions (Spark's); ``names.py`` finds the tables.
Statements that write are in ``changes.py`` and ``definitions.py``: each is one call of a verb, so one commit. ``queries.py`` gives queries to DuckDB, with
the columns and conditions that reach the scans; ``showing.py`` describes tables, and ``procedures.py`` has Hudi's CALL procedures.

How to add a procedure: write a function in ``calls_*.py``, and add its name, its arguments and the function to ``PROCEDURES`` in ``procedures.py``; a
procedure that is refused has the reason there. ``docs/procedures.md`` is written from that table.
"""
