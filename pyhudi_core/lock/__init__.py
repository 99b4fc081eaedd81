"""Lock providers behind one protocol (``base``). A lock only excludes other writers; the commit protocol is safe without it. Import from the modules:
a table needs only its own lock.

How to add a lock that a server keeps, with ``servers/sql.py`` as the example:

1. Write a module in ``servers/``. It has the options (a frozen value with a `lock_option` for each field), a `LockServer` with its `Acquisition`
   (``server.py``), and ``LOCK``, a `LockKind` (``kind.py``) with everything else that is known of the lock. ``kinds.py`` finds it there. A client of
   many lines goes into ``clients/``. Packages of the server are imported in functions, by `from_extra`.
2. ``pyproject.toml``: an extra with its package, also in the extra ``dev``; a package without types also in mypy's list.
3. ``docs/locks.md``: its row, the extra, and its section with the two lines between which ``python scripts/generate_docs.py`` writes its options.
4. A test that inherits from `LockKit` (``testing/lock_kit.py``). On a real server, which ``scripts/servers.py`` installs and
   ``tests/locks/servers.py`` starts, it also inherits from `ServerCases` (``tests/locks/server_cases.py``).

A lock without a server is a module here, named in ``_HERE`` of ``kinds.py``.
"""
