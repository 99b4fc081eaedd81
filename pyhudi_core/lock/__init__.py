"""Lock providers behind one protocol (``base``). A lock only excludes other writers; the commit protocol is safe without it. Import from the modules:
a table needs only its own lock.

How to add a lock:

1. Write a module here. A lock that a server keeps is a `LockServer` (`server`).
2. Let `opening` choose it (``_SERVERS`` for a server).
3. ``options/locks.py``: its name in ``_CLASSES`` (in ``_LOCKS`` if Hudi has no such class), its options in `LockServerOptions` and
   ``LOCK_OPTIONS``, and those that it needs in ``_NEEDED``. An option that can contain a password has ``repr=False`` and ``secret=True``. Options
   that no other lock has are in ``_OWN_OPTIONS`` of `fitting`.
4. ``pyproject.toml``: an extra with its package, also in the extra ``dev``, and in mypy's list of packages without types.
5. ``docs/locks.md``: its row and its section. Then ``python scripts/generate_docs.py``.
6. It must pass the suite of ``testing/lock_kit.py``. The lock of a server also passes ``tests/locks/server_cases.py`` on a real server, which
   ``scripts/servers.py`` installs and ``tests/locks/servers.py`` starts.
"""
