"""SQL: execute one statement, by the methods of `HudiTable`, or by a query engine that reads scans.

`sql` in ``run.py`` is the public call. ``text.py`` parses with sqlglot, in the dialect of conditions (Spark's); ``names.py`` finds tables. Statements
that write are in ``changes.py`` and ``definitions.py``: each statement is one call of a method of the table, so one commit. ``queries.py`` gives
queries to DuckDB, with the columns and conditions that reach the scans; ``showing.py`` describes tables, and ``procedures.py`` has Hudi's CALL
procedures.

How to add a procedure: write a function in ``calls_*.py``, and add its name, arguments, columns and function to the list at the end of that module. A
procedure that this release refuses has its reason in ``procedures.py``. The list in ``docs/sql.md`` is written from ``PROCEDURES``.
"""
