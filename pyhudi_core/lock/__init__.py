"""Lock providers behind one protocol (``base``). A lock only excludes other writers; the commit protocol is safe without it. Import from the modules:
a table needs only its own lock.
"""
