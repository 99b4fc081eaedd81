"""Lock providers behind one protocol (``base``). A lock only excludes other writers; the commit protocol is safe without it. So a lock needs no
fencing token: the commit record refuses a writer that is too late. Import from the modules: a table needs only its own lock.

How to add a lock of a server, with ``servers/sql.py`` as the example:

1. Write a module in ``servers/``. It has the options (a frozen value with a `lock_option` for each field), a `LockServer` (``server.py``), and
   ``LOCK``, a `LockKind` (``kind.py``) with all other facts about the lock. ``kinds.py`` finds it there. If the lock is one entry with a lease, such
   as a row or a key, the class is a `LeasedEntry`, and its ``acquisition`` returns a `LeasedAcquisition`. Another lock, such as a queue, has its own
   `Acquisition`. A long client goes into ``clients/``; ``clients/addresses.py`` parses addresses. Import packages of the server in functions, with
   `from_extra`. A password must not be shown: its option is ``secret=True``, and a field that contains it is ``field(repr=False)``, as in
   ``clients/databases.py``.
2. ``pyproject.toml``: an extra with its package, also in the extra ``dev``; a package without types also in mypy's list. Run ``make lock-file``, and
   add the package to ``docs/decisions/0002-dependencies.md``.
3. Pages: in ``docs/locks.md`` its row, its extra, and its section with the two lines between which ``python scripts/generate_docs.py`` writes the
   options; the extra in ``README.md``; a line in ``CHANGELOG.md``.
4. A test in ``tests/unit/lock`` that inherits from `LockKit` (``testing/lock_kit.py``), on a small fake of the server if it needs one. Run it
   together with ``test_kinds.py`` and ``test_lock_settings.py``, which find the lock and check its pages, its extra and its password.
   ``test_dead_lock_server.py`` needs its options in a list. On the real server, for ``make locks``, a test in ``tests/locks`` also inherits from
   `ServerCases` (``server_cases.py``); ``scripts/servers.py`` installs the server, ``tests/locks/servers.py`` starts it. ``@pytest.mark.row`` names
   the line of ``tests/capabilities.txt`` that the test proves: a conformance test has the line of the other locks, for the real server add a line.
5. A line in ``KINDS`` of ``scripts/lock_figures.py``, which measures the lock.

A lock without a server is a module here, named in ``_HERE`` of ``kinds.py``.
"""
