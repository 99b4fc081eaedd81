"""The write pipeline: from a batch to files, and from files to a commit.

How to add an operation:

1. ``model/operation.py``: a member of `OperationType`, and its sets.
2. ``conflicts/matrix.py``: a line for each pair; then run ``python scripts/generate_docs.py``.
3. `pipeline`: its plan. `attempt`: what it replaces. `checks`: what it refuses.
4. `operations` and ``table.py``: its method.
5. Its word for users in ``cli/make.py``, ``spark/settings.py`` and ``pyhudi_core/orchestration/settings.py``.
"""
