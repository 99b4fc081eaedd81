"""The locks of servers: one module each, with the lock's `LockKind` as ``LOCK``. ``lock/kinds.py`` finds each module of this folder."""
